import CRDT
import DQL
import Exchange
import Logging
import Machine
import OperationLog
import Replica
import ServiceKit

/// A projection in a local replica of this process.
struct EmbeddedStore: ProjectionStore {
    private let share: Materializations.Share
    private let indexes: IndexKeeper
    private let log: any OperationLog
    private var materializer: Materializer { share.materializer }
    private let seats = EvaluationSeats(ServiceKit.Limits.evaluationsOfStore)

    static func open(
        _ database: DatabaseID, log: any OperationLog, in materializations: Materializations,
        recent: RecentChanges, logger: Logger
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
        return EmbeddedStore(share: share, indexes: indexes, log: log)
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

    var readsAtOnce: Bool { true }
    func readNow<Result>(
        at head: LogPosition, _ body: (any ProjectedDocuments) throws -> Result
    ) throws -> Result? {
        guard materializer.positionNow == head, indexes.isSettledFirst else { return nil }
        return try materializer.replica.readNow { try body($0) }
    }

    func draft(
        from offset: Offset, naming keys: [DocumentKey], as actor: ActorID, sequence: SequenceNumber,
        _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft {
        let replica = materializer.replica
        return try await evaluation.run(on: seats) {
            let draft = try replica.draftOnSnapshot(as: actor, sequence: sequence) { try body($0) }
            return StatementDraft(
                result: draft.value, operation: draft.operation, warnings: draft.warnings,
                readAt: draft.readAt)
        }
    }

    /// Drafts, appends and folds in one transaction of the replica, on one thread.
    func write(_ group: GroupWrite) async throws -> GroupWritten {
        let (log, database) = (log, materializer.database)
        return try await materializer.write { replica, position in
            let begin = WorkerThread.processorTime
            defer { group.evaluation.charge(WorkerThread.processorTime - begin) }
            var written: GroupWritten?
            do {
                let folded = try replica.write(
                    as: group.actor, sequence: group.sequence, group.works, goesOn: group.goesOn,
                    checking: group.check,
                    appending: { links in
                        let plan = group.plan(
                            links.map { $0.map { StatementDraft($0, at: position.offset) } })
                        let requests = plan.requests
                        let outcomes = Result {
                            try requests.isEmpty ? [] : log.appendBlocking(requests, to: database)
                        }
                        written = GroupWritten(plan: plan, outcomes: outcomes)
                        let appended = (try? outcomes.get()) ?? []
                        return LogEntry.added(by: requests, appended, after: position).map {
                            Materialization.LogItem($0, of: position.logID)
                        }
                    }
                ) { work, transaction, sequence in try work(transaction, sequence) }
                guard let written else { preconditionFailure("a write of a group has an outcome") }
                return (written, folded)
            } catch {
                // Appended operations are durable. The fold from the log meets the error again, if it stays.
                guard let written else { throw error }
                return (written, [])
            }
        }
    }

    func append(_ requests: [AppendRequest]) async throws -> [AppendOutcome] {
        // Not in the folds' turn, which a large append would hold.
        let outcomes = try await log.append(requests, to: materializer.database)
        // Appended operations are durable. The fold from the log meets a failure again, if it stays.
        _ = try? await materializer.write { replica, position in
            let items = LogEntry.added(by: requests, outcomes, after: position).map {
                Materialization.LogItem($0, of: position.logID)
            }
            return ((), items.isEmpty ? [] : try replica.fold(items))
        }
        return outcomes
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

extension Materialization.LogItem {
    fileprivate init(_ entry: LogEntry, of log: LogID) {
        self.init(
            position: LogPosition(logID: log, offset: entry.offset, hash: entry.hash), bytes: entry.bytes)
    }
}

extension StatementDraft {
    fileprivate init(_ link: DraftChain.Drafted<StatementResult>, at offset: Offset) {
        self.init(
            result: link.value, operation: link.operation, warnings: link.warnings, readAt: offset)
    }
}

extension ReadTransaction: ProjectedDocuments {
    func offset() throws -> Offset { Offset(try head()) }

    func indexRows(of collection: CollectionName) throws -> [ObjectValue] {
        try [IndexRow.ids(of: collection)] + catalog(of: collection).indexes.map(IndexRow.declared)
    }
}
