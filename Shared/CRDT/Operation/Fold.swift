/// The fold of the log, as far as it is pure: what one entry does to one document. Every materialization and
/// every projection is this step, repeated; so all of them agree (rule 17), whatever they are stored in.
///
/// Who folds also keeps, as functions of the entries alone: the clock (`LoggedOperation.latestTime`), the
/// frontier (per actor the last sequence and timestamp of the entries so far), per document the offset that
/// changed it last, and the reap floor: the greatest such offset of any document that was reaped.
public enum Fold {
    /// What a change did to a document's stored state.
    public enum Outcome: Sendable, Equatable {
        /// It is this now.
        case changed(state: EncodedState, isLive: Bool)
        /// Everything the change brings was there already: the state stays, but was confirmed here.
        case duplicate
        /// A tombstone has gone. What stays, not live, keeps seeds from coming back (rule 7); nil when
        /// nothing has to.
        case reaped(rest: EncodedState?)
        /// The change has no effect at all.
        case void(Reason)
    }

    /// Why a change has no effect.
    public enum Reason: Sendable, Equatable {
        /// A delta whose base the fold does not cover (decision 0004): damage, or a liar.
        case baseMissing
        /// A reaping of a document that is not that tombstone: somebody wrote it, or it was reaped before.
        case noSuchTombstone
    }

    /// What a change makes of a document.
    ///
    /// - Parameter state: the document's encoded state; nil when the fold does not have it.
    /// - Throws: when the state does not decode: damage of the store that holds it.
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
    /// Whether reaping takes anything from the tombstone: not from one that is down to its seeds.
    public var isReapable: Bool { isTombstone && reaped() != self }
}

/// A log entry's operation, decoded down to what folding needs.
public struct LoggedOperation: Sendable {
    /// One document's change.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// What it does.
        public let content: LoggedChange
        /// The change as the log has it.
        public let bytes: EncodedDelta
    }

    /// Who wrote it, as which operation, when.
    public let header: OperationHeader
    /// Its changes, in order, of distinct documents. Empty for a refusal's record (decision 0005).
    public let changes: [Change]

    /// Decodes an entry's bytes; what does not decode in a log is damage.
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

    /// The greatest timestamp it brings: a clock that has folded it is not behind that.
    public var latestTime: Timestamp {
        changes.reduce(header.timestamp) { max($0, $1.content.latestTime ?? 0) }
    }
}
