import CRDT
import DQL
import Exchange
import Logging
import OperationLog
import Replica
import ServiceKit

/// A projection in a local replica of this process.
struct EmbeddedStore: ProjectionStore {
    private let share: Materializations.Share
    private let indexes: IndexKeeper
    private var materializer: Materializer { share.materializer }
    private let seats = EvaluationSeats(ServiceKit.Limits.evaluationsOfStore)

    static func open(
        _ database: DatabaseID, in materializations: Materializations, recent: RecentChanges, logger: Logger
    ) async throws -> EmbeddedStore {
        let indexes = IndexKeeper(logger: logger)
        let share = try await materializations.open(
            database, beginning: { recent.begin(at: $0.offset) },
            onFold: { operations in
                recent.append(operations)
                let concernsIndexes = operations.contains { operation in
                    operation.changes.contains { $0.key.collection == IndexDefinitions.collection }
                }
                if concernsIndexes { await indexes.wake() }
            })
        await indexes.begin(share.materializer, isNew: share.materializer.positionNow.offset == 0)
        return EmbeddedStore(share: share, indexes: indexes)
    }

    var keepsIndexes: Bool { true }
    func settleIndexes(isDropping: Bool, for evaluation: Evaluation) async -> Bool {
        await indexes.settle(for: evaluation, timeout: Limits.indexWait)
    }

    /// None: the folder is the process's own.
    var indexFailure: String? { get async { nil } }
    var position: LogPosition { get async { materializer.positionNow } }
    var failure: String? { get async { await materializer.failure } }
    var hasLostHistory: Bool { get async { await materializer.hasLostHistory } }

    /// It does from its opening on.
    func beginFollowing() {}
    func run() async { await share.waitForEnd() }
    func advance() async throws { try await materializer.advance() }
    func wait(for offset: Offset, timeout: Duration) async -> Bool {
        if materializer.positionNow.offset >= offset, indexes.isSettledFirst { return true }
        guard await materializer.wait(for: offset, timeout: timeout) else { return false }
        // A folder that is built again answers when it has its indexes.
        return await indexes.settleFirst(timeout: timeout)
    }

    /// Reads without waiting for `offset`: this process folds, so after it has reached an offset no snapshot
    /// is older.
    func read<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result {
        let replica = materializer.replica
        return try await evaluation.run(on: seats) { try replica.read { try body($0) } }
    }

    func draft(
        from offset: Offset, as actor: ActorID, sequence: SequenceNumber, in turn: DraftTurn,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft {
        let replica = materializer.replica
        // Read before the draft: a fold between the two only makes the condition stricter.
        let readAt = materializer.positionNow.offset
        guard turn.isQuick else {
            return try await turn.evaluation.run(on: seats) {
                let draft = try replica.draftOnSnapshot(as: actor, sequence: sequence) { try body($0) }
                return StatementDraft(
                    result: draft.value, operation: draft.operation, warnings: draft.warnings,
                    readAt: draft.readAt)
            }
        }
        return try await turn.evaluation.run(isUrgent: true) {
            let draft = try replica.draft(as: actor, sequence: sequence) { try body($0) }
            return StatementDraft(
                result: draft.value, operation: draft.operation, warnings: draft.warnings, readAt: readAt)
        }
    }

    func drafts(
        from offset: Offset, as actor: ActorID, sequence: SequenceNumber, in turn: DraftTurn,
        _ works: [DraftWork], goesOn: @escaping @Sendable ((any Error)?) throws -> Bool,
        checking check: @escaping @Sendable (CRDT.Operation) throws -> Void
    ) async throws -> [Result<StatementDraft, any Error>] {
        let replica = materializer.replica
        let readAt = materializer.positionNow.offset
        return try await turn.evaluation.run(isUrgent: true) {
            let links = try replica.drafts(
                as: actor, sequence: sequence, works, goesOn: goesOn, checking: check
            ) { work, transaction, sequence in try work(transaction, sequence) }
            return links.map { link in
                link.map {
                    StatementDraft(
                        result: $0.value, operation: $0.operation, warnings: $0.warnings, readAt: readAt)
                }
            }
        }
    }

    func compact(through offset: Offset) async throws { try await materializer.compact(through: offset) }

    func report() async throws -> ProjectionReport {
        ProjectionReport(storage: "folder", offset: materializer.positionNow.offset, worker: "leads")
    }

    /// A folder has room for one build.
    func rebuild() -> Bool { false }

    func close(discards: Bool) async {
        await indexes.close()
        await share.close(discards: discards)
    }
}

extension ReadTransaction: ProjectedDocuments {
    func offset() throws -> Offset { Offset(try head()) }

    func indexRows(of collection: CollectionName) throws -> [ObjectValue] {
        try [IndexRow.ids(of: collection)] + catalog(of: collection).indexes.map(IndexRow.declared)
    }
}
