/// The pure part of folding the log: the effect of one entry on one document. Every materialization and
/// every projection repeats this step, so they all agree (rule 17), whatever they are stored in.
///
/// A store that folds also keeps, as functions of the entries alone: the clock
/// (`LoggedOperation.latestTime`), the frontier (for each actor the last sequence and timestamp of the
/// entries so far), for each document the offset of its last change, and the reap floor: the greatest such
/// offset of any reaped document.
public enum Fold {
    /// The effect of a change on a document's stored state.
    public enum Outcome: Sendable, Equatable {
        /// The document has this state now.
        case changed(state: EncodedState, isLive: Bool)
        /// Everything in the change was there already. The state stays, but the log has confirmed it here.
        case duplicate
        /// A tombstone was reaped. `rest` stays, not live, and keeps deleted seeds from coming back (rule
        /// 7); nil when there is nothing to keep.
        case reaped(rest: EncodedState?)
        /// The change has no effect at all.
        case void(Reason)
    }

    /// The reason why a change has no effect.
    public enum Reason: Sendable, Equatable {
        /// A delta whose base the fold does not cover (decision 0004): damage or a dishonest writer.
        case baseMissing
        /// A reaping of a document that is not that tombstone: it was written again, or reaped before.
        case noSuchTombstone
    }

    /// Applies a change to a document's state.
    ///
    /// - Parameter state: the document's encoded state; nil when the fold does not have it.
    /// - Throws: when the state does not decode, that is, when its store is damaged.
    public static func step(_ change: LoggedChange, on state: EncodedState?) throws(CRDTError) -> Outcome {
        if state == nil, case .insertion(let insertion) = change {
            return .changed(state: insertion.state, isLive: true)
        }
        var document = Document()
        if let state { document = try Document(decoding: state) }
        switch change {
        case .delta(let delta): return apply(delta, to: &document)
        case .insertion(let insertion): return apply(try insertion.decoded(), to: &document)
        case .state(let incoming):
            guard !document.vector.covers(incoming.vector) else { return .duplicate }
            document.merge(incoming)
            return .changed(state: document.encoded(), isLive: document.isLive)
        case .reaping(let vector):
            guard document.isTombstone, document.vector == vector, document.isReapable else {
                return .void(.noSuchTombstone)
            }
            return .reaped(rest: document.reaped()?.encoded())
        }
    }

    private static func apply(_ delta: Delta, to document: inout Document) -> Outcome {
        switch document.apply(delta) {
        case .applied: .changed(state: document.encoded(), isLive: document.isLive)
        case .duplicate: .duplicate
        case .baseMissing: .void(.baseMissing)
        }
    }
}

extension Document {
    /// True if reaping removes anything from the tombstone. False for one that holds only its seeds' stamps.
    public var isReapable: Bool { isTombstone && reaped() != self }
}

/// A log entry's operation, decoded as far as folding needs.
public struct LoggedOperation: Sendable {
    /// One document's change.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// The decoded change.
        public let content: LoggedChange
        /// The encoded change, as in the log.
        public let bytes: EncodedDelta
    }

    /// The operation's actor, sequence, timestamp and origin.
    public let header: OperationHeader
    /// Its changes, in order; each is of another document. Empty for the record of a refusal (decision
    /// 0005).
    public let changes: [Change]

    /// Decodes an entry's bytes. An entry of a log that does not decode is damaged.
    public init(decoding bytes: [UInt8]) throws(CRDTError) {
        let operation = try Operation(decoding: bytes)
        header = OperationHeader(
            actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
            origin: operation.origin)
        var changes: [Change] = []
        changes.reserveCapacity(operation.changes.count)
        for change in operation.changes {
            changes.append(
                Change(
                    key: DocumentKey(collection: change.collection, id: change.id),
                    content: try LoggedChange(decoding: change.delta, stamp: operation.stamp),
                    bytes: change.delta))
        }
        self.changes = changes
    }

    /// The stamp of its deltas.
    public var stamp: Stamp { Stamp(time: header.timestamp, actor: header.actor) }

    /// The greatest timestamp in it. A clock that has folded the operation has at least this time.
    public var latestTime: Timestamp {
        changes.reduce(header.timestamp) { max($0, $1.content.latestTime ?? 0) }
    }
}
