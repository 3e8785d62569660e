import CRDT
import DQL
import Identity
import Machine
import OperationLog
import ServiceKit
import Synchronization
import Tracing

/// One database's projection, in either kind of store, and the lanes of writes through this process.
///
/// A write tries the quick lane. If it takes longer than a moment there, it is done in a slow one, and so is
/// the same text from then on (`slow`). The slow lanes are made when they are needed.
actor Projection {
    nonisolated let store: any ProjectionStore
    /// The latest operations, for followers.
    nonisolated let recent: RecentChanges
    private let log: any OperationLog
    nonisolated let database: DatabaseID
    private let bounds: QueryServicePart.Bounds
    private let statements: PreparedStatements
    private let pool: EvaluationPool
    /// The documents whose ids take no writes any more.
    private let erased: @Sendable () -> ErasedDocuments?
    private let answers: KeptAnswerCount
    private let quickLane: WriteLane
    private var slowLanes: [WriteLane] = []
    private let slow = SlowStatements()
    private nonisolated let reach: HeadReach
    private var follower: Task<Void, Never>?

    static func open(
        _ database: DatabaseID, log: any OperationLog, in stores: ProjectionStores,
        bounds: QueryServicePart.Bounds, statements: PreparedStatements,
        pool: EvaluationPool = EvaluationPool(),
        erased: @escaping @Sendable () -> ErasedDocuments? = { nil },
        whenLost: @escaping @Sendable (Projection) -> Void
    ) async throws -> Projection {
        let recent = RecentChanges()
        let store = try await stores.open(database, log: log, recent: recent)
        let projection = Projection(database, log, store, recent, bounds, statements, pool, erased)
        await projection.follow(whenLost)
        return projection
    }

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ recent: RecentChanges, _ bounds: QueryServicePart.Bounds, _ statements: PreparedStatements,
        _ pool: EvaluationPool, _ erased: @escaping @Sendable () -> ErasedDocuments?
    ) {
        self.database = database
        self.log = log
        self.store = store
        self.recent = recent
        self.bounds = bounds
        self.statements = statements
        self.pool = pool
        self.erased = erased
        answers = KeptAnswerCount(bounds)
        reach = HeadReach(database, log, store, bounds, statementTime: pool.options.statementTime)
        quickLane = WriteLane(database, log, store, bounds, reach, answers, erased, isQuick: true)
    }

    /// Follows the log; calls `whenLost` if the log lacks the folded history or the next operation.
    private func follow(_ whenLost: @escaping @Sendable (Projection) -> Void) {
        follower = Task {
            await store.run()
            if await store.hasLostHistory { whenLost(self) }
        }
    }

    /// Makes `recent` tell of every operation from now on.
    nonisolated func beginFollowing() async throws { try await store.beginFollowing() }

    /// - Parameter discards: true to delete what this process has folded.
    func close(discards: Bool = false) async {
        recent.endFollowers(isFinal: true)
        follower?.cancel()
        for lane in [quickLane] + slowLanes { await lane.close() }
        await store.close(discards: discards)
    }

    /// Runs a closure on a snapshot of the log's head, for an administrator unless a credential is named.
    /// - Parameter whenClientLeaves: registers what ends the evaluation when its client has gone.
    nonisolated func survey<Result: Sendable>(
        _ text: String, of credential: String = "admin",
        whenClientLeaves: ((@escaping @Sendable () -> Void) -> Void)? = nil,
        _ body: @escaping @Sendable (any ProjectedDocuments, Evaluation) throws -> Result
    ) async throws -> Result {
        let evaluation = try pool.statement(text, of: credential, in: database)
        defer { pool.finish(evaluation) }
        whenClientLeaves?({ evaluation.end(.abandoned) })
        do {
            return try await atHead(evaluation) { try body($0, evaluation) }
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        }
    }

    /// Runs a closure on a snapshot of the log's head, where a store cannot give that at once after a look at
    /// the log.
    /// - Parameters:
    ///   - minimum: the least offset of the snapshot, which is waited for.
    ///   - key: see `ProjectionStore.read`.
    private nonisolated func atHead<Result: Sendable>(
        _ evaluation: Evaluation, after minimum: Offset? = nil, fetching key: DocumentKey? = nil,
        orElse failure: QueryError = HeadReach.lagging,
        _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result {
        let least = minimum ?? 0
        if let result = try await store.readAtHead(from: least, fetching: key, evaluation, body) {
            return result
        }
        let offset = try await reach.head(for: evaluation, after: minimum, orElse: failure)
        return try await store.read(from: offset, fetching: key, evaluation, body)
    }

    /// Executes a statement that reads few documents, all of which its reader may read, at the log's head and
    /// on this thread. Nil if that would have to wait. Throws `timeout` when it is no brief one.
    nonisolated func readNow(
        _ statement: PreparedStatement, _ arguments: ObjectValue, isStrict: Bool
    ) throws -> ExecuteAnswer? {
        guard let head = log.headNow(of: database) else { return nil }
        var options = options(isStrict: isStrict)
        options.budget = Limits.briefBudget
        let limit = bounds.answerBytes
        return try store.readNow(at: head) { documents in
            var (rows, bytes) = ([Value](), AnswerBytes(limit: limit))
            let warnings = try statement.forEachResult(
                in: documents, arguments: arguments, options: options
            ) { row in
                let value = try row.value
                try bytes.add(value)
                rows.append(value)
                return true
            }
            return ExecuteAnswer(
                transactionID: try documents.offset(), queryType: statement.kind, items: rows,
                warnings: warnings.map { AnswerWarning($0) })
        }
    }

    /// Executes a statement for an identity on a state no older than offset `minimum`.
    nonisolated func execute(
        _ request: ExecuteRequest, isStrict: Bool, _ identity: Identity, after minimum: Offset?,
        _ past: Past, _ evaluation: Evaluation
    ) async throws -> ExecuteAnswer {
        try await withSpan("statement") { span in
            span.attributes["mimeo.database"] = database.text
            return try await evaluated(
                request, isStrict: isStrict, identity, after: minimum, past, evaluation)
        }
    }

    private nonisolated func evaluated(
        _ request: ExecuteRequest, isStrict: Bool, _ identity: Identity, after minimum: Offset?,
        _ past: Past, _ evaluation: Evaluation
    ) async throws -> ExecuteAnswer {
        let steps = try await prepare(request, identity, evaluation)
        var options = options(isStrict: isStrict)
        options.interruption = { evaluation.interruption() }
        options.documentsVisited = { evaluation.count(documents: $0) }
        options.rowsHeld = { evaluation.holds(rows: $0) }
        let job = WriteLane.Job(
            steps: steps, transaction: request.transaction, options: options, rights: identity.rights,
            key: request.key, evaluation: evaluation,
            rows: request.transaction == nil ? request.rows : .held, keepsIndexes: store.keepsIndexes,
            form: request.form)
        if job.isReadOnly, request.asOf == nil { return try await read(job, after: minimum) }
        // A write goes to a lane, which may draft at the head without a look before. An operation that is
        // undone must not be taken for one still to come.
        if job.isReadOnly || minimum != nil || job.key?.undone != nil || !store.draftsAtHead {
            _ = try await reach.head(
                for: evaluation, after: minimum, orElse: QueryError(.transactionNotReached))
        }
        if let point = request.asOf {
            guard job.isReadOnly else { throw QueryError(.pastIsReadOnly) }
            let offset = try await past.offset(of: point, in: database, evaluation)
            let limit = bounds.answerBytes
            return try await past.translating(database) {
                try await past.folds.read(database, at: offset, evaluation) { documents in
                    try Self.evaluate(job, limit: limit, in: documents)
                }
            }
        }
        var answer = try await write(job)
        if job.changesIndexes, let warning = await unsettled(job, evaluation) {
            answer.warnings.append(AnswerWarning(warning))
        }
        return answer
    }

    /// Waits for the indexes that a statement has changed; a warning if that takes too long.
    private nonisolated func unsettled(_ job: WriteLane.Job, _ evaluation: Evaluation) async -> String? {
        let isDropping = job.statement.kind == .dropIndex
        guard await !store.settleIndexes(isDropping: isDropping, for: evaluation) else { return nil }
        if isDropping { return "the index is still being removed" }
        // It may be another index that fails: the store knows one failure for all.
        if let failure = await store.indexFailure {
            return "not every index can be built now, which is tried again: \(failure); "
                + "system:indexes tells which ones are ready"
        }
        return "the index is still being built; system:indexes tells when it is ready"
    }

    /// The statements, prepared and allowed.
    private nonisolated func prepare(
        _ request: ExecuteRequest, _ identity: Identity, _ evaluation: Evaluation
    ) async throws -> [WriteLane.Job.Step] {
        var steps: [WriteLane.Job.Step] = []
        // Many short statements take as long as a long one.
        let isLong = request.steps.reduce(0) { $0 + $1.statement.utf8.count } > Limits.plainStatementBytes
        for (index, step) in request.steps.enumerated() {
            request.transaction?.running = index
            let statement = try await prepare(step.statement, isLong: isLong, evaluation)
            guard !statement.evicts else { throw QueryError(.evictIsLocal) }
            guard statement.kind != .alterSystem else { throw QueryError(.parametersAreLocal) }
            try Self.authorize(statement, identity.rights)
            steps.append(WriteLane.Job.Step(statement: statement, arguments: step.arguments))
        }
        request.transaction?.running = nil
        return steps
    }

    /// Parses and analyzes a statement; a long one in a turn of its own, as each of those that are long
    /// together.
    nonisolated func prepare(
        _ text: String, isLong: Bool? = nil, _ evaluation: Evaluation
    ) async throws -> PreparedStatement {
        guard isLong ?? (text.utf8.count > Limits.plainStatementBytes) else {
            return try statements.prepare(text)
        }
        let statements = statements
        return try await evaluation.run {
            let statement = try evaluation.preparing { try statements.prepare(text) }
            evaluation.leave(statement)
            return statement
        }
    }

    /// - Throws: `QUERY-0202` or `QUERY-0203` if the statement names a collection of which its author may not
    ///   read or write any document.
    static func authorize(_ statement: PreparedStatement, _ rights: CompiledGrant) throws(QueryError) {
        for collection in statement.collectionsRead where !rights.read.allowsAny(of: collection) {
            guard collection.text.hasPrefix("system:") else {
                throw QueryError(.readNotGranted, rights.read.shown(collection))
            }
        }
        try statement.authorizeIndexes(rights)
        for collection in statement.collectionsWritten where !rights.write.allowsAny(of: collection) {
            throw QueryError(.writeNotGranted, rights.write.shown(collection))
        }
    }

    /// The rows of a live query on a state no older than an offset; without one no older than the log's head.
    nonisolated func rows(of query: Observation.Query, from offset: Offset?) async throws -> Observation.Rows
    {
        let start: Offset
        if let offset {
            start = offset
            guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
                throw HeadReach.lagging
            }
        } else {
            start = try await reach.head()
        }
        return try await evaluating(query) { try await rows(of: query, from: start, $0) }
    }

    private nonisolated func rows(
        of query: Observation.Query, from offset: Offset, _ evaluation: Evaluation
    ) async throws -> Observation.Rows {
        let (options, most) = (options(isStrict: false), bounds.observedBytes)
        let held = ClientHold(Account(query.credential, in: database))
        return try await store.read(from: offset, evaluation) { documents in
            var options = options
            options.interruption = { evaluation.interruption() }
            options.system = try QuerySystemCollections(
                of: documents, for: [query.statement], rules: query.rights.read)
            let readable: any DocumentSource =
                query.rights.coversWhole(query.statement)
                ? documents : GrantedDocuments(base: documents, rules: query.rights.read)
            var rows: [KeptRow] = []
            var bytes = 0
            // It may have begun before, on a connection that was lost.
            held.shrink(by: held.bytes)
            _ = try evaluation.planning(query.statement) {
                try query.statement.forEachResult(
                    in: readable, arguments: query.arguments, options: options
                ) { row in
                    let kept = row.kept
                    bytes += try kept.withDocument { $0.count + $1.count } ?? CBOR.encode(kept.value).count
                    guard bytes <= most else { throw QueryError(.resultTooLarge, "\(most)") }
                    rows.append(kept)
                    let memory = bytes + rows.count * Limits.keptRowBytes
                    if memory - held.bytes >= Limits.writeBytes { try held.grow(to: memory) }
                    return true
                }
            }
            return Observation.Rows(rows: rows, offset: try documents.offset(), held: held)
        }
    }

    /// Runs a part of a live query's work in a turn of its own.
    nonisolated func computing<Result: Sendable>(
        for query: Observation.Query, _ body: @escaping @Sendable (Evaluation) throws -> Result
    ) async throws -> Result {
        try await evaluating(query) { evaluation in try await evaluation.run { try body(evaluation) } }
    }

    /// Lets go of large things of a live query.
    nonisolated func discard(_ leavings: Leavings, of credential: String) {
        pool.discard(leavings, of: credential, in: database)
    }

    private nonisolated func evaluating<Result>(
        _ query: Observation.Query, _ body: (Evaluation) async throws -> Result
    ) async throws -> Result {
        try await pool.subscribing(of: query.credential, in: database, as: query.statement.text, body)
    }

    /// Execution options of a statement that begins now.
    nonisolated func options(isStrict: Bool) -> ExecutionOptions {
        let now = Int64(clamping: Environment.system.wallMilliseconds())
        var options = ExecutionOptions(
            strictMode: isStrict, context: FunctionContext(now: now, timeZones: SystemTimeZones()))
        // PROFILE tells how long each step took.
        let start = ContinuousClock.now
        options.nanoseconds = {
            let (seconds, attoseconds) = (ContinuousClock.now - start).components
            return UInt64(clamping: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
        }
        return options
    }

    private nonisolated func read(
        _ job: WriteLane.Job, after minimum: Offset?
    ) async throws -> ExecuteAnswer {
        let limit = bounds.answerBytes
        let key = job.steps.count == 1 ? job.statement.soleDocument(job.steps[0].arguments) : nil
        return try await atHead(
            job.evaluation, after: minimum, fetching: key, orElse: QueryError(.transactionNotReached)
        ) { try Self.evaluate(job, limit: limit, in: $0) }
    }

    /// Evaluates a statement that reads on a snapshot, within its reader's rights.
    private static func evaluate(
        _ job: WriteLane.Job, limit: Int, in documents: any ProjectedDocuments
    ) throws -> ExecuteAnswer {
        var options = job.options
        options.system = try QuerySystemCollections(
            of: documents, for: job.steps.map(\.statement), rules: job.rights.read)
        var rows = AnswerRows(job, limit: limit)
        var results: [StatementResult] = []
        var changed: Double?
        for (index, step) in job.steps.enumerated() {
            job.transaction?.running = index
            let readable: any DocumentSource =
                job.rights.coversWhole(step.statement)
                ? documents : GrantedDocuments(base: documents, rules: job.rights.read)
            var result = StatementResult()
            try rows.begin()
            result.warnings = try job.evaluation.planning(step.statement) {
                try step.statement.forEachResult(
                    in: readable, arguments: step.arguments, options: options
                ) { found in
                    try rows.add(try job.form.told(found, in: readable))
                    return true
                }
            }
            result.rows = try rows.end()
            changed = changed ?? rows.unwritableNumber
            results.append(result)
        }
        job.transaction?.running = nil
        job.transaction?.results = results
        var answer = ExecuteAnswer(
            transactionID: try documents.offset(), queryType: job.statement.kind,
            items: results.count == 1 ? results[0].rows : results.flatMap(\.rows),
            warnings: results[0].warnings.map { AnswerWarning($0) }
                + (changed.map { [ExecuteAnswer.changed($0)] } ?? [])
        )
        answer.results = job.results([])
        answer.spool = rows.spool
        answer.spooledCount = rows.spooledCount
        answer.heldBytes = rows.heldBytes
        return answer
    }

    /// A statement that was slow once, on a busy machine or over many documents, goes back to the quick lane
    /// when it was quick: there, writes of the same documents go together, and do not conflict.
    private func write(_ job: WriteLane.Job) async throws -> ExecuteAnswer {
        while true {
            // Else it would wait in a lane behind one that waits for the log.
            let status = log.status
            if let refusal = status.refusal, status.refusesAtOnce { throw refusal }
            if !slow.contains(job) {
                do {
                    return try await quickLane.write(job)
                } catch is WriteLane.TooSlow {
                    slow.note(job)
                }
            }
            if store.draftsAtHead { _ = try await reach.head(for: job.evaluation) }
            do {
                let answer = try await lane(for: job.evaluation.purpose.credential).write(job)
                if job.evaluation.wasQuick { slow.forget(job) }
                return answer
            } catch is WriteLane.QuickAfterAll {
                slow.forget(job)
            }
            if job.evaluation.end != nil { throw DQLError.interrupted(.timeout) }
        }
    }

    /// The slow lane that serves a credential already, else an idle one, else a new one, else the shortest.
    private func lane(for credential: String) async -> WriteLane {
        var shortest: (lane: WriteLane, count: Int)?
        for lane in slowLanes {
            if await lane.serves(credential) { return lane }
            let count = await lane.count
            if count < shortest?.count ?? .max { shortest = (lane, count) }
        }
        if let shortest, shortest.count == 0 || slowLanes.count >= Limits.slowLanes { return shortest.lane }
        let lane = WriteLane(database, log, store, bounds, reach, answers, erased, isQuick: false)
        slowLanes.append(lane)
        return lane
    }
}

/// The statements that were too slow for the quick lane of late, by text and credential.
private final class SlowStatements: Sendable {
    private let known = Mutex<[String]>([])

    func contains(_ job: WriteLane.Job) -> Bool { known.withLock { $0.contains(Self.key(job)) } }

    func note(_ job: WriteLane.Job) {
        known.withLock { known in
            known.removeAll { $0 == Self.key(job) }
            known.append(Self.key(job))
            if known.count > Limits.slowStatements { known.removeFirst() }
        }
    }

    func forget(_ job: WriteLane.Job) { known.withLock { $0.removeAll { $0 == Self.key(job) } } }

    private static func key(_ job: WriteLane.Job) -> String {
        var hasher = Hasher()
        for step in job.steps { hasher.combine(Array(step.statement.text.utf8)) }
        return "\(hasher.finalize()) \(job.evaluation.purpose.credential)"
    }
}
