import CRDT
import DQL
import Exchange
import GRDB
import Logging
import Machine

/// A fold of the shared log: the documents as of one offset. It changes by `fold`, `write` and `load` only,
/// and is disposable: whoever follows the log builds it again (`Materializer` of ServiceKit).
///
/// Commits are not synced: after a crash the fold is repeated from the log. The checkpoint changes in the
/// transaction of the documents, so each entry is folded exactly once.
public final class Materialization: Replica {
    /// An entry to fold: an operation and its position in the log.
    public struct LogItem: Sendable {
        /// The position after the operation.
        public let position: LogPosition
        /// The operation's encoding.
        public let bytes: [UInt8]

        /// An item at this position.
        public init(position: LogPosition, bytes: [UInt8]) {
            self.position = position
            self.bytes = bytes
        }
    }

    /// See `Replica`.
    public let store: DocumentStore

    /// Opens or creates the store in a directory. Throws `directoryLocked` at once, `directoryUnusable`,
    /// `unsupportedFormat` or `damaged`.
    public init(directory: String, environment: Environment, logger: Logger) throws {
        store = try DocumentStore(
            directory: directory, durability: .rebuildable, environment: environment, logger: logger)
    }

    /// See `Replica`.
    public func close() throws { try store.close() }

    /// Removes the files in a directory, so that the next opening rebuilds them. The lock's file stays, and
    /// with it the lock of a materialization that holds the directory. One that has the files open must be
    /// closed right after.
    public static func discard(directory: String) throws { try DocumentStore.discard(directory: directory) }

    /// The offset up to which the log is folded; 0 before the first fold.
    public var foldedThrough: Offset { store.state.foldedThrough }

    /// The position up to which this materialization has folded its log; nil before the first operation.
    public func checkpoint() throws -> LogPosition? { try read { try $0.logPosition() } }

    /// The greatest offset of the last change of a tombstone that was reaped later; 0 while none was. A
    /// cursor before it cannot catch up from later changes, because a reaped tombstone leaves no trace
    /// (rule 14).
    public func reapFloor() throws -> Offset { try read { try $0.reapFloor() } }

    /// Folds log entries that directly follow the checkpoint, in one transaction with it (exactly once, in
    /// spite of crashes). Throws `brokenLog` when an entry does not follow or does not decode: that is
    /// damage. A delta whose base the fold does not cover is void (decision 0004): admission keeps it out,
    /// but if one is ever in the log, every fold skips it alike and continues.
    /// - Returns: the folded operations: the first item, and as many more as `ReplicaLimits.foldedBytes` of
    ///   states have room for; empty only for no items.
    public func fold(_ items: [LogItem]) throws -> [FoldedOperation] {
        try store.committing { database, state in
            var folder = Folder(database, store.logger)
            var folded: [FoldedOperation] = []
            var bytes = 0
            for item in items where bytes < ReplicaLimits.foldedBytes {
                let operation = try folder.fold(item, &state)
                for change in operation.changes { bytes += (change.before?.count ?? 0) + change.after.count }
                folded.append(operation)
            }
            try folder.frontier.save(database)
            try folder.history.save(database)
            return folded
        }
    }

    /// Runs a tentative write on a materialization: the closure runs against the current documents and is
    /// rolled back; its changes are returned as an operation for the log, or nil if there were none.
    public func draft<Value>(
        as actor: ActorID, sequence: SequenceNumber, _ body: (WriteTransaction) throws -> Value
    ) throws -> (value: Value, operation: Operation?, warnings: [String]) {
        precondition(sequence > 0, "the sequences of a log begin at 1")
        try store.checkOpen()
        do {
            return try store.writing { database in
                guard var state = try StoreState.load(database) else {
                    preconditionFailure("an open store has a state")
                }
                state.write(as: actor, next: sequence)
                let transaction = WriteTransaction(database, state, store.environment, liveQueries: [])
                var result: (value: Value, operation: Operation?, warnings: [String])?
                try database.inTransaction(.immediate) {
                    let value = try body(transaction)
                    result = (value, try transaction.made()?.own?.operation, transaction.warnings)
                    return .rollback
                }
                guard let result else { preconditionFailure("a draft left no result") }
                return result
            }
        } catch {
            throw store.failed(error)
        }
    }

    /// A write that was drafted on a snapshot.
    public struct SnapshotWrite<Value> {
        /// The closure's result.
        public let value: Value
        /// The operation for the log; nil when nothing was changed.
        public let operation: Operation?
        /// Documents above the soft limit.
        public let warnings: [String]
        /// The offset of the snapshot.
        public let readAt: Offset
    }

    /// The same as `draft` on a snapshot, whose changes are held in memory: it waits for no writer and holds
    /// up none, so the closure may take long. Indexes serve it until its first change.
    public func draftOnSnapshot<Value>(
        as actor: ActorID, sequence: SequenceNumber, _ body: (WriteDraft) throws -> Value
    ) throws -> SnapshotWrite<Value> {
        return try read { transaction in
            guard let state = try transaction.withDatabase({ try StoreState.load($0) }) else {
                preconditionFailure("an open store has a state")
            }
            let draft = WriteDraft(
                on: transaction, as: actor, sequence: sequence, after: state.clock.latest,
                wallMilliseconds: store.environment.wallMilliseconds(), refuse: ReplicaError.refusal)
            let value = try body(draft)
            return SnapshotWrite(
                value: value, operation: try draft.operation(), warnings: draft.warnings,
                readAt: state.foldedThrough)
        }
    }
}

extension ReadTransaction: DraftBase {}

extension ReplicaError {
    /// The error of a draft on a snapshot.
    fileprivate static func refusal(_ refusal: DraftRefusal) -> any Error {
        switch refusal {
        case .collectionName(let bytes):
            ReplicaError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, not \(bytes)")
        case .documentTooLarge(let reason): ReplicaError(.documentTooLarge, reason)
        case .transactionTooLarge(let reason): ReplicaError(.transactionTooLarge, reason)
        case .unreadable(let error): ReplicaError(.damaged, "a stored document cannot be read: \(error)")
        case .evict: ReplicaError(.storageFailed, "EVICT does not apply to a materialization")
        }
    }
}
