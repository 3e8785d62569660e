import CRDT
import DQL
import Machine
import OperationLog
import Postgres
import ServiceKit

/// A projection in PostgreSQL, shared with other processes.
struct PostgresStore: ProjectionStore {
    private let database: DatabaseID
    private let log: any OperationLog
    private let projection: PostgresProjection
    private let tail: ChangeTail
    /// The connections, which all databases share.
    private let seats: EvaluationSeats

    init(
        _ database: DatabaseID, log: any OperationLog, _ projection: PostgresProjection, tail: ChangeTail,
        seats: EvaluationSeats
    ) {
        self.database = database
        self.log = log
        self.projection = projection
        self.tail = tail
        self.seats = seats
    }

    var position: LogPosition { get async { await projection.position } }
    var failure: String? { get async { await projection.failure } }
    /// Always false: the process that folds rebuilds the projection itself.
    var hasLostHistory: Bool { get async { false } }

    func beginFollowing() async throws { try await tail.begin() }
    func run() async { await projection.run() }
    func advance() async throws { try await projection.advance() }
    func wait(for offset: Offset, timeout: Duration) async -> Bool {
        await projection.wait(for: offset, timeout: timeout)
    }

    func read<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result {
        try await projection.read(
            from: offset, fetching: key,
            running: { [seats] in try await evaluation.run(on: seats, $0) },
            waiting: EvaluationWait(evaluation: evaluation)
        ) { try body($0) }
    }

    func readAtHead<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey?, _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result? {
        try await projection.readAtHead(
            from: offset, fetching: key,
            running: { [seats] in try await evaluation.run(on: seats, $0) },
            waiting: EvaluationWait(evaluation: evaluation)
        ) { try body($0) }
    }

    var draftsAtHead: Bool { projection.isBesideLog }

    func draft(
        from offset: Offset, naming keys: [DocumentKey], as actor: ActorID, sequence: SequenceNumber,
        _ evaluation: Evaluation,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft {
        StatementDraft(
            try await projection.draft(
                from: offset, expecting: keys, as: actor, sequence: sequence,
                wallMilliseconds: Environment.system.wallMilliseconds(),
                running: { [seats] in try await evaluation.run(on: seats, $0) },
                waiting: EvaluationWait(evaluation: evaluation)
            ) { try body($0) })
    }

    /// Drafts on a snapshot, and appends. With the log on the same server the snapshot is at the log's head,
    /// and the fold is committed along. Where it cannot be, the worker folds what this process knows then. If
    /// another one leads, that folds it.
    func write(_ group: GroupWrite) async throws -> GroupWritten {
        let planned = try await planned(group)
        let plan = planned.plan
        guard !plan.requests.isEmpty else { return GroupWritten(plan: plan, outcomes: .success([])) }
        do {
            let outcomes = try await append(plan.requests, with: planned.ride)
            return GroupWritten(plan: plan, outcomes: .success(outcomes))
        } catch {
            return GroupWritten(plan: plan, outcomes: .failure(error))
        }
    }

    func append(_ requests: [AppendRequest]) async throws -> [AppendOutcome] {
        try await append(requests, with: nil)
    }

    private func append(_ requests: [AppendRequest], with ride: FoldRide?) async throws -> [AppendOutcome] {
        try await projection.write(with: ride) { [log, database] position in
            let outcomes = try await log.append(requests, to: database, with: ride)
            return (outcomes, LogEntry.added(by: requests, outcomes, after: position))
        }
    }

    private func planned(_ group: GroupWrite) async throws -> PostgresProjection.Planned<GroupPlan> {
        var offset = group.offset
        if draftsAtHead {
            if let planned = try await planned(group, from: offset, isAtHead: true) { return planned }
            offset = max(offset, try await group.reachHead())
        }
        guard let planned = try await planned(group, from: offset, isAtHead: false) else {
            throw HeadReach.lagging
        }
        return planned
    }

    private func planned(
        _ group: GroupWrite, from offset: Offset, isAtHead: Bool
    ) async throws -> PostgresProjection.Planned<GroupPlan>? {
        try await projection.drafts(
            from: offset, isAtHead: isAtHead, expecting: group.named, as: group.actor,
            sequence: group.sequence, wallMilliseconds: { Environment.system.wallMilliseconds() },
            running: { [seats] in try await group.evaluation.run(on: seats, isUrgent: true, $0) },
            waiting: EvaluationWait(evaluation: group.evaluation), group.works, goesOn: group.goesOn,
            checking: group.check,
            planning: { results in group.plan(results.map { $0.map { StatementDraft($0) } }) },
            requests: \.requests
        ) { work, draft, sequence in try work(draft, sequence) }
    }

    var keepsIndexes: Bool { true }

    var indexFailure: String? {
        get async {
            guard let code = await projection.indexFailure?.code else { return nil }
            // PostgreSQL's own words are for operators: the log has them.
            return code == .rightMissing ? "\(code.rawValue), the role lacks a right" : code.rawValue
        }
    }

    /// Asks the server, since another process may be the one that builds.
    func settleIndexes(isDropping: Bool, for evaluation: Evaluation) async -> Bool {
        let start = ContinuousClock.now
        let end = start + Limits.indexWait
        var pause = Limits.firstIndexLook
        while evaluation.end == nil, ContinuousClock.now < end {
            let isSettled = try? await projection.read { documents in
                let wanted = try IndexDefinitions.all(in: documents)
                let present = try documents.indexes()
                let areOthersGone = present.allSatisfy { index in
                    wanted.contains { $0.isDefined(like: index) }
                }
                guard areOthersGone, !isDropping else { return areOthersGone }
                return wanted.allSatisfy { index in
                    present.contains { $0.isReady && $0.isDefined(like: index) }
                }
            }
            if isSettled ?? false { return true }
            // A failure that only people can mend is not waited for.
            if !isDropping, let failure = await projection.indexFailure, failure.code == .rightMissing,
                failure.at > start
            {
                return false
            }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.lastIndexLook)
        }
        return false
    }

    /// PostgreSQL itself reclaims the space of removed rows.
    func compact(through offset: Offset) async throws {
        try await advance()
        guard await wait(for: offset, timeout: Limits.transactionWait) else {
            throw HeadReach.lagging
        }
        try await tail.compact(through: offset)
    }

    func report() async throws -> ProjectionReport {
        let report = try await projection.report()
        return ProjectionReport(
            storage: "postgres", offset: report.offset, generation: report.generation,
            worker: report.isLeading ? "leads" : "follows", building: report.building,
            isRebuildWanted: report.isRebuildWanted)
    }

    func rebuild() async throws -> Bool {
        try await projection.rebuild()
        return true
    }

    /// The tables are other processes' too: they stay.
    func close(discards: Bool) async {
        await tail.close()
        await projection.close()
    }
}

extension StatementDraft {
    fileprivate init(_ draft: PostgresProjection.Draft<StatementResult>) {
        self.init(
            result: draft.value, operation: draft.operation, warnings: draft.warnings, readAt: draft.readAt)
    }
}

/// An evaluation that waits for PostgreSQL.
private struct EvaluationWait: ServerWait {
    let evaluation: Evaluation

    func waiting<Result>(
        _ body: (_ interruption: @escaping () -> Interruption?) throws -> Result
    ) throws -> Result {
        try evaluation.waiting(body)
    }
}

extension ProjectionSnapshot: ProjectedDocuments {
    func offset() throws -> Offset { try position().offset }

    func size(
        of collection: CollectionName, check: () throws -> Void
    ) throws -> (documents: Int, bytes: Int) {
        try check()
        return try size(of: collection)
    }

    func indexRows(of collection: CollectionName) throws -> [ObjectValue] {
        let declared = try indexed?.catalog(of: collection).indexes ?? []
        return try tableIndexes(of: collection).map { index in
            var row = index.isPrimary ? IndexRow.ids(of: collection) : IndexRow.sql(collection, index.name)
            row["bytes"] = .int(Int64(index.bytes))
            row["definition"] = .string(index.definition)
            return row
        } + declared.map(IndexRow.declared)
    }
}
