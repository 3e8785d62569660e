import CRDT
import DQL
import Identity
import Machine
import OperationLog
import ServiceKit

/// Writes a database as one actor, one statement after the other: each is drafted against the projection,
/// appended to the log, folded and answered, so each sees the one before. Between lanes, of this process and
/// of others, an append carries a condition (rule 22): the data that the statement read or wrote has not been
/// touched since. If it has, the statement runs again. Peers write without conditions; their writes are
/// merged as concurrent ones.
///
/// A database has one *quick* lane, in which a statement may take a moment only, since all others wait for
/// it, and some *slow* ones, in which statements draft on a snapshot and hold up only each other.
///
/// Invariant: `line` has who waits; the credentials have their turns one after the other.
actor WriteLane {
    /// A statement to write, or a transaction of several.
    struct Job: Sendable {
        /// A statement with its arguments.
        struct Step: Sendable {
            let statement: PreparedStatement
            let arguments: ObjectValue
        }

        /// At least one.
        let steps: [Step]
        /// The progress of a transaction; nil for a single statement.
        let transaction: TransactionProgress?
        let options: ExecutionOptions
        let rights: CompiledGrant
        let key: IdempotencyKey?
        let evaluation: Evaluation
        /// Where the rows of a single SELECT go.
        var rows = RowPlace.held
        /// True if the store has indexes of CREATE INDEX.
        var keepsIndexes = false
        /// The form of the rows of statements that only read.
        var form = RowForm.values
    }

    /// A statement takes too long for the quick lane; nothing was written.
    struct TooSlow: Error {}
    /// A statement in a slow lane is quick after all, and has lost to other writes; nothing was written.
    struct QuickAfterAll: Error {}

    let store: any ProjectionStore
    let log: any OperationLog
    let database: DatabaseID
    let bounds: QueryServicePart.Bounds
    let reach: HeadReach
    let writer: LeasedActor
    let answers: KeptAnswerCount
    let erased: @Sendable () -> ErasedDocuments?
    private let isQuick: Bool
    private var line = FairLine()
    /// The offset of this lane's last write. No draft begins before it is folded, since each stamp must
    /// exceed every earlier one of its actor.
    var written: Offset = 0
    /// The sequence after this lane's last append; nil if the log has to tell.
    private var next: (actor: ActorID, sequence: SequenceNumber)?
    /// True if the outcome of an append is unknown. Until the log is folded up to its head, a stamp could be
    /// used twice.
    private var isUnsure = false

    init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ bounds: QueryServicePart.Bounds, _ reach: HeadReach, _ answers: KeptAnswerCount,
        _ erased: @escaping @Sendable () -> ErasedDocuments?, isQuick: Bool
    ) {
        self.answers = answers
        self.erased = erased
        self.database = database
        self.log = log
        self.store = store
        self.bounds = bounds
        self.reach = reach
        self.isQuick = isQuick
        writer = LeasedActor(log: log, database: database, purpose: "query-service")
    }

    /// The number of statements that run or wait.
    var count: Int { line.count }

    /// Returns whether statements of a credential run or wait here.
    func serves(_ credential: String) -> Bool { line.serves(credential) }

    /// Writes when its turn comes.
    /// - Throws: `TooSlow` in a quick lane, `QuickAfterAll` in a slow one; `QUERY-0303` if too many wait.
    func write(_ job: Job) async throws -> ExecuteAnswer {
        guard line.count < bounds.waitingWrites else { throw QueryError(.overloaded) }
        let credential = job.evaluation.purpose.credential
        if line.enter(credential) {
            switch await wait(job) {
            case .isIn: break
            case .gone: throw DQLError.interrupted(.cancelled)
            case .done(let result): return try result.get()
            }
        }
        defer { line.leave(credential) }
        if job.evaluation.end != nil { throw DQLError.interrupted(.cancelled) }
        // Writers that have come while the last write was made go along.
        let others = isQuick ? line.take(Limits.groupedWrites - 1, with: credential) : []
        let begin = ContinuousClock.now
        defer { line.charge([credential] + others.map(\.credential), .now - begin) }
        return try await isQuick ? perform(job, with: others) : perform(job)
    }

    /// Ends the wait of one who was taken out of the line.
    func answer(_ waiter: FairLine.Waiter, _ result: Result<ExecuteAnswer, any Error>) {
        line.answer(waiter, result)
    }

    /// Waits in the line, until the statement's turn or its end.
    private func wait(_ job: Job) async -> FairLine.Outcome {
        let evaluation = job.evaluation
        // An evaluation that kept itself would never give its memory back.
        let number = evaluation.number
        evaluation.whenEnded { Task { await self.giveUp(number) } }
        let deadline = Task { try await evaluation.endAtDeadline() }
        defer { deadline.cancel() }
        let outcome = line.wait(evaluation.purpose.credential, number, isQuick ? job : nil)
        if evaluation.end != nil { line.giveUp(number) }
        return await withTaskCancellationHandler {
            await outcome.value()
        } onCancel: {
            evaluation.end(.abandoned)
        }
    }

    private func giveUp(_ number: UInt64) { line.giveUp(number) }

    /// Waits for the statement that runs, and gives up the actor.
    func close() async {
        let last = "\u{0}"
        if line.enter(last) { _ = await line.wait(last, 0, nil).value() }
        line.leave(last)
        await writer.close()
    }

    /// Drafts on a snapshot, appends and folds. The statement runs again if another lane touched data that it
    /// read or wrote, under another lease if this one has expired, and once under a new actor if the log
    /// knows other operations of this one.
    private func perform(_ job: Job) async throws -> ExecuteAnswer {
        if await store.position.offset < written { try await catchUp(to: written) }
        var isActorNew = false
        if let key = job.key { try await answers.update(for: key, from: written, store, job.evaluation) }
        for attempt in 0..<Limits.writeAttempts {
            let (lease, sequence) = try await nextStamp()
            let draft: StatementDraft
            do {
                draft = try await self.draft(job, as: lease.actor, sequence: sequence)
            } catch let error as DQLError where error.code == .timeout && attempt > 0 {
                // The statement was not too long: others were faster.
                throw QueryError(.conflict)
            }
            if let kept = draft.kept { return try await repeated(kept, job) }
            var answer = await answer(job, draft)
            guard let operation = draft.operation else { return answer }
            try Self.checkErased(operation, erased())
            let condition = AppendCondition(
                readAt: draft.readAt, reads: Touch.all(of: operation, reading: job))
            let request = AppendRequest(operation, under: lease, condition: condition)
            let outcomes: [AppendOutcome]
            do {
                outcomes = try await store.append([request])
            } catch {
                await noteAppend([request], .failure(error))
                throw error
            }
            await noteAppend([request], .success(outcomes))
            switch outcomes[0] {
            case .appended(let offset):
                answer.transactionID = offset
                if let key = job.key { answers.note(key, removed: draft.removedAnswers) }
                return answer
            case .conflict(.condition(let offset)):
                if job.evaluation.wasQuick { throw QuickAfterAll() }
                try await catchUp(to: offset)
            case .conflict(.leaseLost): await writer.lose(lease)
            case .duplicate, .gap, .conflict:
                guard !isActorNew else { throw QueryError(.conflict) }
                isActorNew = true
                await writer.lose(lease, retiring: true)
            }
        }
        throw QueryError(.conflict)
    }

    /// The actor and the sequence of the next write, after everything of this actor is folded.
    func nextStamp() async throws -> (lease: ActorLease, sequence: SequenceNumber) {
        let (lease, isFresh) = try await writer.lease()
        if isFresh {
            // The lease's previous holder may have written operations that are not folded here.
            written = max(written, try await log.head(of: database).offset)
            try await catchUp(to: written)
        }
        // Nobody else writes as this actor while the lease lasts.
        if !isFresh, !isUnsure, let next, next.actor == lease.actor { return (lease, next.sequence) }
        // The sequence comes from the log, so a deleted or restored projection never repeats one. It is
        // read before the fold below: a write that arrives between the two takes the same sequence.
        let frontier = try await log.frontier(of: [lease.actor], in: database)
        if isUnsure {
            written = max(written, try await log.head(of: database).offset)
            try await catchUp(to: written)
            isUnsure = false
        }
        return (lease, (frontier[lease.actor]?.sequence ?? 0).next)
    }

    /// The answer to a drafted statement, at the offset of the projection.
    func answer(_ job: Job, _ draft: StatementDraft) async -> ExecuteAnswer {
        var answer = ExecuteAnswer(
            transactionID: max(draft.readAt, await store.position.offset), queryType: job.statement.kind,
            items: draft.result.rows, mutatedDocumentIDs: draft.result.mutatedDocumentIDs.map(\.value),
            warnings: draft.result.warnings.map { AnswerWarning($0) }
                + draft.warnings.map { AnswerWarning($0) })
        answer.results = job.results(draft.warnings.map { AnswerWarning($0) })
        return answer
    }

    /// Refuses a write to a document that an operator has erased.
    static func checkErased(
        _ operation: Operation, _ erased: ErasedDocuments?
    ) throws(QueryError) {
        guard let erased else { return }
        for change in operation.changes where erased.contains(change.collection, change.id) {
            throw QueryError(.erased, "a document of \(change.collection)")
        }
    }

    /// Waits until drafts see the operation at an offset of the log.
    func catchUp(to offset: Offset) async throws {
        try await store.advance()
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw HeadReach.lagging
        }
    }

    private func draft(
        _ job: Job, as actor: ActorID, sequence: SequenceNumber
    ) async throws -> StatementDraft {
        let work = await work(job, as: actor)
        var draft = try await store.draft(
            from: written, naming: job.named, as: actor, sequence: sequence, job.evaluation
        ) {
            try work.run(in: $0, sequence, job.options)
        }
        work.complete(&draft)
        return draft
    }

    /// The work of a job, whoever drafts it.
    func work(_ job: Job, as actor: ActorID) async -> WriteWork {
        let now = bounds.nowSeconds()
        return WriteWork(
            job: job, bytes: AnswerBytes(limit: bounds.answerBytes), now: now,
            since: now - bounds.keptAnswers.components.seconds, actor: actor,
            readAt: await store.position.offset,
            isFull: job.key.map { answers.hasTooMany($0) } ?? false,
            old: job.key == nil ? [] : answers.toRemove)
    }

    /// The answer of the first request with this key.
    func repeated(_ kept: KeptAnswers.Kept, _ job: Job) async throws -> ExecuteAnswer {
        guard kept.request == job.key?.request else { throw QueryError(.idempotencyKeyReused) }
        return KeptAnswers.answer(kept, kind: job.statement.kind, at: await offset(of: kept))
    }

    /// The offset of the operation that wrote an answer; if the log no longer has it, the present one.
    private func offset(of kept: KeptAnswers.Kept) async -> Offset {
        var after = kept.readAt
        let end = after.rawValue + UInt64(Limits.keptAnswerSearch)
        while after.rawValue < end, let entries = try? await log.read(database, after: after) {
            guard let last = entries.last else { break }
            let own = entries.first {
                "\($0.actor)" == kept.actor && $0.sequence.rawValue == UInt64(clamping: kept.sequence)
            }
            if let own { return own.offset }
            after = last.offset
        }
        return await store.position.offset
    }

    /// Takes note of the outcome of an append of this lane's actor, and waits until drafts see what it
    /// stored.
    func noteAppend(_ requests: [AppendRequest], _ outcomes: Result<[AppendOutcome], any Error>) async {
        guard !requests.isEmpty else { return }
        next = nil
        guard case .success(let outcomes) = outcomes else {
            isUnsure = true
            return
        }
        precondition(outcomes.count == requests.count, "each operation has one outcome")
        let offsets = outcomes.compactMap(\.appendedOffset)
        guard let last = offsets.last, let record = requests.last?.record else { return }
        if offsets.count == outcomes.count { next = (record.actor, record.sequence.next) }
        written = last
        if await store.position.offset >= last { return }
        // The write is durable now. If the projection cannot follow, later statements fail, not this one.
        if (try? await store.advance()) != nil {
            _ = await store.wait(for: last, timeout: bounds.transactionWait)
        }
    }
}

extension AppendOutcome {
    fileprivate var appendedOffset: Offset? {
        if case .appended(let offset) = self { offset } else { nil }
    }
}

extension Evaluation {
    /// True if its last turn took so little time that the quick lane would not have ended it.
    var wasQuick: Bool { lastTurn < ServiceKit.Limits.urgentTurn / 2 }
}

extension Touch {
    /// The data that nobody may have touched for a statement's operation to be valid: the documents it
    /// writes, and the collections it copies from. The collections it writes to are not included: two
    /// statements may write different documents of one collection.
    static func all(of operation: Operation, reading job: WriteLane.Job) -> [Touch] {
        written(by: operation) + copied(by: job).map { Touch.collection($0) }
    }

    /// The documents that an operation writes.
    static func written(by operation: Operation) -> [Touch] {
        operation.changes.map { Touch.document($0.collection, $0.id) }
    }

    /// The collections that a job copies from. An INSERT copies from every collection it reads; other
    /// statements only from those in subqueries, their own among them. A SELECT of a transaction copies
    /// nothing. A change of an index rests on all definitions.
    static func copied(by job: WriteLane.Job) -> [CollectionName] {
        if job.changesIndexes { return [IndexDefinitions.collection] }
        return job.steps.map(\.statement).filter { !$0.isReadOnly }.flatMap { statement in
            statement.collectionsRead.filter { collection in
                statement.kind == .insert || !statement.collectionsWritten.contains(collection)
                    || statement.collectionsOfSubqueries.contains(collection)
            }
        }
    }
}
