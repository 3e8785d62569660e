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

    /// The same on a snapshot at the log's head, from an offset on, without a look at the log before. Nil if
    /// the store stands elsewhere, or cannot tell. May run the closure and throw its result away.
    func readAtHead<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result?

    /// True if `readNow` may succeed.
    var readsAtOnce: Bool { get }

    /// Runs a closure that takes a moment on a snapshot at the log's position `head`, at once and on this
    /// thread. Nil if the store stands elsewhere, or would have to be waited for.
    func readNow<Result>(
        at head: LogPosition, _ body: (any ProjectedDocuments) throws -> Result
    ) throws -> Result?

    /// True if `write` drafts on everything that was in the log before it.
    var draftsAtHead: Bool { get }

    /// Runs a statement as `read` does, and drafts its write as an operation of this actor for the log. It
    /// may take long, and holds up nobody.
    /// - Parameter keys: documents that it will look up or edit. A store far away reads them at once.
    func draft(
        from offset: Offset, naming keys: [DocumentKey], as actor: ActorID, sequence: SequenceNumber,
        _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft

    /// Drafts works that others wait for, each on what those before it leave, appends to the log what the
    /// group's plan makes of them, and folds that as soon as it can.
    /// - Throws: before anything was appended.
    func write(_ group: GroupWrite) async throws -> GroupWritten

    /// Appends to the log, and folds at once what it has appended if nothing stands before that. A store does
    /// not read in the log what its own process has written.
    func append(_ requests: [AppendRequest]) async throws -> [AppendOutcome]

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
    /// False: the documents are far away.
    var readsAtOnce: Bool { false }

    /// The log is elsewhere.
    func readAtHead<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result? { nil }

    /// The log is asked before.
    var draftsAtHead: Bool { false }

    /// Never at once.
    func readNow<Result>(
        at head: LogPosition, _ body: (any ProjectedDocuments) throws -> Result
    ) throws -> Result? { nil }

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

/// Works to draft, append and fold together.
struct GroupWrite: Sendable {
    /// The least offset of the snapshot on which they are drafted.
    let offset: Offset
    /// The author, and the sequence of the first operation.
    let actor: ActorID
    let sequence: SequenceNumber
    /// The evaluation in whose turn the works are drafted. Each may take a moment, and may hold up the store
    /// for so long.
    let evaluation: Evaluation
    /// Documents that the works will look up or edit. A store far away reads them at once.
    let named: [DocumentKey]
    /// The works. One that fails leaves nothing.
    let works: [DraftWork]
    /// See `DraftChain.all`.
    let goesOn: @Sendable ((any Error)?) throws -> Bool
    /// Refuses an operation by throwing.
    let check: @Sendable (CRDT.Operation) throws -> Void
    /// Waits until the store shows what is in the log, and returns its head: for a store that drafts at the
    /// head, and is elsewhere.
    let reachHead: @Sendable () async throws -> Offset
    /// Makes the appends of the drafts that were made.
    let plan: @Sendable ([Result<StatementDraft, any Error>]) -> GroupPlan
}

/// The outcome of a group.
struct GroupWritten: Sendable {
    let plan: GroupPlan
    /// One outcome per request of the plan; the error if the log answered none. Then the operations may be in
    /// the log all the same.
    let outcomes: Result<[AppendOutcome], any Error>
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
