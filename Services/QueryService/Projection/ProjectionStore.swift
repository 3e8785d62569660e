import CRDT
import DQL
import OperationLog

/// The documents of one database, as a fold of its log, wherever they are kept: what a `Projection` executes
/// statements on.
///
/// A store follows the log; statements see a snapshot of it, and writes are drafted on one.
protocol ProjectionStore: Sendable {
    /// How far the log is folded, as far as this process knows.
    var position: LogPosition { get async }
    /// Why the store does not follow the log; nil while it does.
    var failure: String? { get async }
    /// Whether the log was found to lack what is folded: only another opening helps.
    var hasLostHistory: Bool { get async }

    /// Follows the log until the task is cancelled or the log closes.
    func run() async

    /// Folds what is in the log, or sees to it that whoever folds does.
    func advance() async throws

    /// Waits until the fold has reached `offset`; false when that takes longer than `timeout`.
    func wait(for offset: Offset, timeout: Duration) async -> Bool

    /// Runs a closure on a snapshot that is not older than `offset`, on a thread that may block. May run it
    /// twice.
    func read<Result: Sendable>(
        from offset: Offset, _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result

    /// What a statement would write: as `read`, with an operation of this actor for the log.
    func draft(
        from offset: Offset, as actor: ActorID, sequence: SequenceNumber,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft

    /// Ends what `run` began and frees everything.
    func close() async
}

/// A snapshot of a store.
protocol ProjectedDocuments: DocumentSource {
    /// The names of all collections that were ever written.
    func collectionNames() throws -> [CollectionName]
    /// The offset it is as of.
    func offset() throws -> Offset
}

/// What a statement came to on a snapshot.
struct StatementDraft: Sendable {
    let result: StatementResult
    /// Nil when nothing was changed.
    let operation: CRDT.Operation?
    let warnings: [String]
    /// The offset of the snapshot, or an earlier one.
    let readAt: Offset
}
