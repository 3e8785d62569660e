import CRDT
import DQL
import GRDB

/// One operation of the shared log, folded: what fan-out needs to know of it.
public struct FoldedOperation: Sendable {
    /// One document's change, with its states around the operation; nil before the first.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// The encoded delta, shared by all receivers; nil when a full state was merged.
        public let delta: [UInt8]?
        /// The encoded state before the operation.
        public let before: [UInt8]?
        /// The encoded state after it.
        public let after: [UInt8]
    }

    /// The place in the log, after this operation.
    public let position: LogPosition
    /// The operation's stamp.
    public let stamp: Stamp
    /// The operation's sequence.
    public let sequence: UInt64
    /// The changes, in the operation's order.
    public let changes: [Change]
}

extension Replica {
    /// An entry to fold: an operation and its place in the log.
    public struct LogItem: Sendable {
        /// The place after the operation.
        public let position: LogPosition
        /// The operation's encoding.
        public let bytes: [UInt8]

        /// An item at this place.
        public init(position: LogPosition, bytes: [UInt8]) {
            self.position = position
            self.bytes = bytes
        }
    }

    /// How far this materialization has folded its log; nil before the first operation.
    public func checkpoint() throws -> LogPosition? { try read { try $0.logPosition() } }

    /// Folds log entries that directly follow the checkpoint, in one transaction with it (exactly once,
    /// whatever crashes). Throws `brokenLog` when an entry does not follow or does not decode: that is
    /// damage. A delta whose base the fold does not cover is void (decision 0004): admission keeps it out,
    /// but if one ever is in the log, every fold skips it alike and goes on.
    public func fold(_ items: [LogItem]) throws -> [FoldedOperation] {
        precondition(role == .materialization, "a peer receives, it does not fold")
        return try committing { database, state in
            var folded: [FoldedOperation] = []
            var collections = Collections()
            var touched: [DocumentKey] = []
            for item in items {
                guard item.position.offset == state.head + 1,
                    state.logID == nil || state.logID == item.position.logID
                else {
                    throw ReplicaError(
                        .brokenLog,
                        "offset \(item.position.offset) does not follow the checkpoint \(state.head)")
                }
                let operation = try undamaged(item.position.offset) { try Operation(decoding: item.bytes) }
                state.logID = item.position.logID
                state.head = item.position.offset
                state.logHash = item.position.hash
                try state.observe(operation.timestamp)
                var changes: [FoldedOperation.Change] = []
                for change in operation.changes {
                    guard
                        let done = try fold(change, operation.stamp, &state, &collections, database)
                    else { continue }
                    touched.append(done.key)
                    changes.append(done)
                }
                folded.append(
                    FoldedOperation(
                        position: item.position, stamp: operation.stamp, sequence: operation.sequence,
                        changes: changes))
            }
            let commit =
                touched.isEmpty ? nil : Commit(number: state.head, documents: touched, actor: nil, wanted: [])
            return (folded, commit)
        }
    }

    /// Folds one change; nil when it is void.
    private func fold(
        _ change: Operation.Change, _ stamp: Stamp, _ state: inout StoreState,
        _ collections: inout Collections, _ database: Database
    ) throws -> FoldedOperation.Change? {
        let offset = state.head
        let table = try collections.requireNumber(of: change.collection, database)
        let before = try DocumentRows.state(table, change.id, database)
        var document = try before.map { try Document(decoding: $0) } ?? Document()
        let full = StateChange.state(in: change.delta)
        let outcome: Document.ApplyOutcome
        if let full {
            let incoming = try undamaged(offset) { try Document(decoding: full) }
            outcome = document.vector.covers(incoming.vector) ? .duplicate : .applied
            document.merge(incoming)
            if let latest = incoming.vector.greatestTime { try state.observe(latest) }
        } else {
            outcome = document.apply(
                try undamaged(offset) { try Delta(decoding: change.delta, stamp: stamp) })
        }
        guard outcome != .baseMissing else {
            logger.error(
                "a change in the log is void: its base is missing", metadata: ["offset": "\(offset)"])
            return nil
        }
        let after = outcome == .applied ? document.encoded() : before ?? document.encoded()
        try DocumentRows.put(
            table, change.id, live: document.isLive, position: offset, state: after, database)
        return FoldedOperation.Change(
            key: DocumentKey(collection: change.collection, id: change.id),
            delta: full == nil ? change.delta : nil, before: before, after: after)
    }

    /// What a write would do to a materialization: the closure runs against the current documents and is
    /// rolled back; what it changed comes back as an operation for the log, or nil when it changed nothing.
    public func draft<Value>(
        as actor: ActorID, sequence: UInt64, _ body: (WriteTransaction) throws -> Value
    ) throws -> (value: Value, operation: Operation?, warnings: [String]) {
        precondition(
            role == .materialization && sequence > 0, "a draft is for a log, whose sequences begin at 1")
        try checkOpen()
        do {
            return try pool.writeWithoutTransaction { database in
                guard var state = try StoreState.load(database) else {
                    preconditionFailure("an open store has a state")
                }
                state.actor = actor
                state.sequence = sequence - 1
                let transaction = WriteTransaction(database, state, environment, liveQueries: [])
                var result: (value: Value, operation: Operation?, warnings: [String])?
                try database.inTransaction(.immediate) {
                    let value = try body(transaction)
                    result = (value, try transaction.operation()?.operation, transaction.warnings)
                    return .rollback
                }
                guard let result else { preconditionFailure("a draft left no result") }
                return result
            }
        } catch {
            throw ReplicaError.translated(error)
        }
    }
}

/// Runs a decoder on what the log holds: what does not decode there is damage.
private func undamaged<Result>(_ offset: UInt64, _ body: () throws -> Result) throws -> Result {
    do {
        return try body()
    } catch let error as CRDTError {
        throw ReplicaError(.brokenLog, "offset \(offset) cannot be read: \(error)")
    }
}
