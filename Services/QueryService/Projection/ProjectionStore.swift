import CRDT
import DQL
import OperationLog
import ServiceKit

/// The documents of one database, folded from its log, in either kind of storage. A `Projection` executes
/// statements on it.
///
/// A store follows the log. Statements read a snapshot of it, and writes are drafted on one.
protocol ProjectionStore: Sendable {
    /// Position up to which the log is folded, as far as this process knows.
    var position: LogPosition { get async }
    /// The reason why the store does not follow the log; nil while it does.
    var failure: String? { get async }
    /// True if the log lacks the folded history: the store must be closed and opened again.
    var hasLostHistory: Bool { get async }

    /// Follows the log until the task is cancelled or the log closes.
    func run() async

    /// From now on the store tells its `RecentChanges` of every operation. Returns when that has begun.
    func beginFollowing() async throws

    /// Folds up to the log's head, or makes the process that folds do so.
    func advance() async throws

    /// Waits until the fold has reached `offset`; returns false after `timeout`.
    func wait(for offset: Offset, timeout: Duration) async -> Bool

    /// Runs a closure on a snapshot that is not older than `offset`, in a turn of the evaluation. May run it
    /// twice.
    /// - Parameter key: a document that the closure will look up, which may be fetched with the snapshot.
    func read<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result

    /// Runs a statement as `read` does, and drafts its write as an operation of this actor for the log.
    func draft(
        from offset: Offset, as actor: ActorID, sequence: SequenceNumber, in turn: DraftTurn,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft

    /// The same as `draft` for several pieces of work that others wait for, each on what those before it
    /// leave. One that fails leaves nothing.
    /// - Parameters:
    ///   - goesOn: see `DraftChain.all`.
    ///   - check: refuses an operation by throwing.
    /// - Returns: the results of those that were made.
    func drafts(
        from offset: Offset, as actor: ActorID, sequence: SequenceNumber, in turn: DraftTurn,
        _ works: [DraftWork], goesOn: @escaping @Sendable ((any Error)?) throws -> Bool,
        checking check: @escaping @Sendable (CRDT.Operation) throws -> Void
    ) async throws -> [Result<StatementDraft, any Error>]

    /// True if the store builds the indexes that the database's definitions say (`IndexDefinitions`).
    var keepsIndexes: Bool { get }

    /// Waits until the indexes are as the definitions say that are folded; returns false if that takes too
    /// long, or the evaluation ends before.
    /// - Parameter isDropping: true to wait only for the end of those that are not defined any more.
    func settleIndexes(isDropping: Bool, for evaluation: Evaluation) async -> Bool

    /// The reason why indexes could not be built lately, if this process has tried, in words for clients.
    var indexFailure: String? { get async }

    /// Folds through an offset, and frees the space in which removed content may stand.
    func compact(through offset: Offset) async throws

    /// The state, for administrators.
    func report() async throws -> ProjectionReport

    /// Builds the documents again from the log beside the present ones. Returns false if this store cannot:
    /// then it must be closed with `discards` and opened again.
    func rebuild() async throws -> Bool

    /// Ends `run` and closes the store.
    /// - Parameter discards: true to delete what is folded.
    func close(discards: Bool) async
}

extension ProjectionStore {
    /// The same for a closure that looks no document up, or several.
    func read<Result: Sendable>(
        from offset: Offset, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result {
        try await read(from: offset, fetching: nil, evaluation, body)
    }
}

/// The state of a projection.
struct ProjectionReport: Sendable {
    /// `folder` or `postgres`.
    let storage: String
    let offset: Offset
    /// The number of the build that readers use; nil where the store does not count them.
    var generation: Int?
    /// `leads` in the process that folds, else `follows`.
    let worker: String
    /// The offset that the build beside has reached; nil while none is made.
    var building: Offset?
    var isRebuildWanted = false
}

/// A statement to draft, with the sequence that its operation would have.
typealias DraftWork = @Sendable (any DocumentWriter, SequenceNumber) throws -> StatementResult

/// How a draft is evaluated.
struct DraftTurn: Sendable {
    let evaluation: Evaluation
    /// True if others wait for it: it may take a moment, and may hold up the store for so long.
    let isQuick: Bool
    /// Documents that it will look up or edit. A store far away reads them at once.
    var named: [DocumentKey] = []
}

/// A snapshot of a store.
protocol ProjectedDocuments: DocumentSource {
    /// The names of all collections that were ever written.
    func collectionNames() throws -> [CollectionName]
    /// The snapshot's offset in the log.
    func offset() throws -> Offset
    /// The live documents of a collection, and the bytes of their ids and encodings. `check` is called now
    /// and then, and ends it with its error.
    func size(of collection: CollectionName, check: () throws -> Void) throws -> (documents: Int, bytes: Int)
    /// Visits up to so many documents, spread over a collection.
    func sample(_ collection: CollectionName, _ count: Int, _ visit: (DocumentRecord) throws -> Void) throws
    /// The indexes of a collection, the one over the ids included, as rows for administrators.
    func indexRows(of collection: CollectionName) throws -> [ObjectValue]
}

/// The result of a statement on a snapshot, and the operation it would write.
struct StatementDraft: Sendable {
    let result: StatementResult
    /// Nil if the statement changed nothing.
    let operation: CRDT.Operation?
    let warnings: [String]
    /// The offset of the snapshot, or an earlier one.
    let readAt: Offset
    /// The answer of an earlier run under the same `Idempotency-Key`; then the statement did not run.
    var kept: KeptAnswers.Kept?
    /// How many old kept answers the draft removes.
    var removedAnswers = 0
}
