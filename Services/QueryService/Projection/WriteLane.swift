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
        /// The rows of a single SELECT go there.
        var spool: RowSpool?
    }

    /// A statement takes too long for the quick lane; nothing was written.
    struct TooSlow: Error {}

    private let store: any ProjectionStore
    private let log: any OperationLog
    private let database: DatabaseID
    private let bounds: QueryServicePart.Bounds
    private let writer: LeasedActor
    private let answers: KeptAnswerCount
    private let erased: @Sendable () -> ErasedDocuments?
    private let isQuick: Bool
    private var line = FairLine()
    /// The offset of this lane's last write. No draft begins before it is folded, since each stamp must
    /// exceed every earlier one of its actor.
    private var written: Offset = 0
    /// True if the outcome of an append is unknown. Until the log is folded up to its head, a stamp could be
    /// used twice.
    private var isUnsure = false

    init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ bounds: QueryServicePart.Bounds, _ answers: KeptAnswerCount,
        _ erased: @escaping @Sendable () -> ErasedDocuments?, isQuick: Bool
    ) {
        self.answers = answers
        self.erased = erased
        self.database = database
        self.log = log
        self.store = store
        self.bounds = bounds
        self.isQuick = isQuick
        writer = LeasedActor(log: log, database: database, purpose: "query-service")
    }

    /// The number of statements that run or wait.
    var count: Int { line.count }

    /// Returns whether statements of a credential run or wait here.
    func serves(_ credential: String) -> Bool { line.serves(credential) }

    /// Writes when its turn comes.
    /// - Throws: `TooSlow` in a quick lane; `QUERY-0303` if too many wait.
    func write(_ job: Job) async throws -> ExecuteAnswer {
        guard line.count < bounds.waitingWrites else { throw QueryError(.overloaded) }
        let credential = job.evaluation.purpose.credential
        if line.enter(credential), await !wait(job.evaluation) { throw DQLError.interrupted(.cancelled) }
        defer { line.leave(credential) }
        if job.evaluation.end != nil { throw DQLError.interrupted(.cancelled) }
        return try await perform(job)
    }

    /// Waits in the line; false if the statement has ended meanwhile and is out of it.
    private func wait(_ evaluation: Evaluation) async -> Bool {
        evaluation.whenEnded { Task { await self.giveUp(evaluation.number) } }
        let deadline = Task { try await evaluation.endAtDeadline() }
        defer { deadline.cancel() }
        return await withCheckedContinuation {
            line.wait(evaluation.purpose.credential, evaluation.number, $0)
            if evaluation.end != nil { line.giveUp(evaluation.number) }
        }
    }

    private func giveUp(_ number: UInt64) { line.giveUp(number) }

    /// Waits for the statement that runs, and gives up the actor.
    func close() async {
        let last = "\u{0}"
        if line.enter(last) { _ = await withCheckedContinuation { line.wait(last, 0, $0) } }
        line.leave(last)
        await writer.close()
    }

    /// Drafts, appends and folds. The statement runs again if another lane touched data that it read or
    /// wrote, under another lease if this one has expired, and once under a new actor if the log knows other
    /// operations of this one.
    private func perform(_ job: Job) async throws -> ExecuteAnswer {
        if await store.position.offset < written { try await catchUp(to: written) }
        var isActorNew = false
        if let key = job.key { try await answers.update(for: key, from: written, store, job.evaluation) }
        for _ in 0..<Limits.writeAttempts {
            let (lease, isFresh) = try await writer.lease()
            if isFresh {
                // The lease's previous holder may have written operations that are not folded here.
                written = max(written, try await log.head(of: database).offset)
                try await catchUp(to: written)
            }
            // The sequence comes from the log, so a deleted or restored projection never repeats one. It is
            // read before the fold below: a write that arrives between the two takes the same sequence.
            let frontier = try await log.frontier(of: [lease.actor], in: database)
            let sequence = (frontier[lease.actor]?.sequence ?? 0).next
            if isUnsure {
                written = max(written, try await log.head(of: database).offset)
                try await catchUp(to: written)
                isUnsure = false
            }
            let draft = try await draft(job, as: lease.actor, sequence: sequence)
            if let kept = draft.kept { return try await repeated(kept, job) }
            var answer = ExecuteAnswer(
                transactionID: max(draft.readAt, await store.position.offset), queryType: job.statement.kind,
                items: draft.result.rows, mutatedDocumentIDs: draft.result.mutatedDocumentIDs.map(\.value),
                warnings: draft.result.warnings.map(\.message) + draft.warnings)
            answer.results = job.results(draft.warnings)
            guard let operation = draft.operation else { return answer }
            try checkErased(operation)
            let condition = AppendCondition(
                readAt: draft.readAt, reads: Touch.all(of: operation, reading: job))
            switch try await append(operation, under: lease, condition) {
            case .appended(let offset):
                answer.transactionID = offset
                if let key = job.key { answers.note(key, removed: draft.removedAnswers) }
                return answer
            case .conflict(.condition(let offset)): try await catchUp(to: offset)
            case .conflict(.leaseLost): await writer.lose(lease)
            case .duplicate, .gap, .conflict:
                guard !isActorNew else { throw QueryError(.conflict) }
                isActorNew = true
                await writer.lose(lease, retiring: true)
            }
        }
        throw QueryError(.conflict)
    }

    /// Refuses a write to a document that an operator has erased.
    private func checkErased(_ operation: Operation) throws(QueryError) {
        guard let erased = erased() else { return }
        for change in operation.changes where erased.contains(change.collection, change.id) {
            throw QueryError(.erased, "a document of \(change.collection)")
        }
    }

    /// Waits until drafts see the operation at an offset of the log.
    private func catchUp(to offset: Offset) async throws {
        try await store.advance()
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw QueryError(.unavailable, "the projection lags behind the log")
        }
    }

    private func draft(
        _ job: Job, as actor: ActorID, sequence: SequenceNumber
    ) async throws -> StatementDraft {
        let bytes = AnswerBytes(limit: bounds.answerBytes)
        let turn = DraftTurn(evaluation: job.evaluation, isQuick: isQuick)
        let now = bounds.nowSeconds()
        let since = now - bounds.keptAnswers.components.seconds
        let readAt = await store.position.offset
        let found = KeptAnswers.Found()
        let isFull = job.key.map { answers.hasTooMany($0) } ?? false
        let old = job.key == nil ? [] : answers.toRemove
        do {
            var draft = try await store.draft(from: written, as: actor, sequence: sequence, in: turn) {
                writer in
                if let key = job.key {
                    found.kept = try KeptAnswers.find(key, in: writer, since: since)
                    if found.kept != nil { return StatementResult() }
                    if isFull { throw QueryError(.tooManyIdempotencyKeys) }
                }
                let result = try job.execute(in: writer)
                var counted = bytes
                try counted.add(result.rows)
                if let key = job.key {
                    let kept = KeptAnswers.Kept(
                        request: key.request, at: now, actor: "\(actor)",
                        sequence: Int64(clamping: sequence.rawValue), readAt: readAt,
                        answer: KeptAnswers.text(of: result, job))
                    try KeptAnswers.keep(kept, under: key, removing: old, in: writer)
                }
                return result
            }
            draft.kept = found.kept
            draft.removedAnswers = old.count
            return draft
        } catch let error as DQLError where error.code == .timeout && job.evaluation.hasTurnExpired {
            throw TooSlow()
        }
    }

    /// The answer of the first request with this key.
    private func repeated(_ kept: KeptAnswers.Kept, _ job: Job) async throws -> ExecuteAnswer {
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

    private func append(
        _ operation: Operation, under lease: ActorLease, _ condition: AppendCondition
    ) async throws -> AppendOutcome {
        let request = AppendRequest(operation, under: lease, condition: condition)
        // The outcome is unknown until the log has answered.
        isUnsure = true
        guard let outcome = try await log.append([request], to: database).first else {
            preconditionFailure("an append of one operation has one outcome")
        }
        isUnsure = false
        if case .appended(let offset) = outcome {
            written = offset
            // The write is durable now. If the projection cannot follow, later statements fail, not this one.
            if (try? await store.advance()) != nil {
                _ = await store.wait(for: offset, timeout: bounds.transactionWait)
            }
        }
        return outcome
    }
}

extension Touch {
    /// The data that nobody may have touched for a statement's operation to be valid: the documents it
    /// writes, and the collections it copies from. The collections it writes to are not included: two
    /// statements may write different documents of one collection.
    fileprivate static func all(of operation: Operation, reading job: WriteLane.Job) -> [Touch] {
        let documents = operation.changes.map { Touch.document($0.collection, $0.id) }
        // An INSERT copies from every collection it reads; other statements only from those in subqueries. A
        // SELECT of a transaction copies nothing.
        let copied = job.steps.map(\.statement).filter { !$0.isReadOnly }.flatMap { statement in
            statement.collectionsRead.filter { collection in
                statement.kind == .insert || !statement.collectionsWritten.contains(collection)
            }
        }
        return documents + copied.map { Touch.collection($0) }
    }
}

/// Lets one in at a time. Of those who wait, the credentials have their turns one after the other, so many
/// statements of one credential delay another's by one.
struct FairLine {
    private var isTaken = false
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Bool, Never>
    }

    private var waiting: [(credential: String, waiters: [Waiter])] = []
    private var present: [String: Int] = [:]

    /// How many are in or wait.
    var count: Int { present.values.reduce(0, +) }

    /// Returns whether a credential is in or waits.
    func serves(_ credential: String) -> Bool { present[credential] != nil }

    /// Comes to the line. Returns whether it has to `wait`; else it is in.
    mutating func enter(_ credential: String) -> Bool {
        present[credential, default: 0] += 1
        guard !isTaken else { return true }
        isTaken = true
        return false
    }

    /// Waits behind the others of its credential; resumed with true when it is in.
    mutating func wait(
        _ credential: String, _ id: UInt64, _ continuation: CheckedContinuation<Bool, Never>
    ) {
        let waiter = Waiter(id: id, continuation: continuation)
        if let place = waiting.firstIndex(where: { utf8Equal($0.credential, credential) }) {
            waiting[place].waiters.append(waiter)
        } else {
            waiting.append((credential, [waiter]))
        }
    }

    /// Lets one that still waits go, with false.
    mutating func giveUp(_ id: UInt64) {
        for place in waiting.indices {
            guard let index = waiting[place].waiters.firstIndex(where: { $0.id == id }) else { continue }
            let waiter = waiting[place].waiters.remove(at: index)
            let credential = waiting[place].credential
            if waiting[place].waiters.isEmpty { waiting.remove(at: place) }
            forget(credential)
            return waiter.continuation.resume(returning: false)
        }
    }

    /// Leaves, and lets the next one in.
    mutating func leave(_ credential: String) {
        forget(credential)
        guard !waiting.isEmpty else {
            isTaken = false
            return
        }
        var next = waiting.removeFirst()
        let waiter = next.waiters.removeFirst()
        if !next.waiters.isEmpty { waiting.append(next) }
        waiter.continuation.resume(returning: true)
    }

    private mutating func forget(_ credential: String) {
        let left = (present[credential] ?? 1) - 1
        present[credential] = left == 0 ? nil : left
    }
}
