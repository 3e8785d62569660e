import CRDT
import DQL
import HTTPTypes
import Hummingbird
import Identity
import Logging
import Machine
import NIOCore
import OperationLog
import Replica
import ServiceKit
import Synchronization

/// The query-service: DQL over HTTP on a projection of the log, embedded or in PostgreSQL.
///
/// Reads see every operation that was in the log when the request arrived. Writes become operations of the
/// log. They are answered after the projection has folded them, so a caller reads its own writes.
public final class QueryServicePart: ServicePart {
    /// `query-service`.
    public let name = "query-service"
    /// The port of a query-service in its own process.
    public static let defaultPort = 4003

    private let log: any OperationLog
    private let authenticator: Authenticator
    private let logger: Logger
    private let projections: OpenDatabases<Projection>
    /// How far the projections are behind the log.
    private let lag = LagWatch()
    private let stores: ProjectionStores
    private let past: Past
    private let slots: StreamSlots
    private let observations = Observations()
    private let statements: PreparedStatements
    private let isDraining = Mutex(false)
    /// Error of the last opening of a projection; nil if it succeeded.
    private let openingFailure = Mutex<String?>(nil)
    /// Projections whose log lacks the folded history or the next operation.
    private let lost: AsyncStream<Projection>
    /// Evaluates the statements.
    private let pool: EvaluationPool
    private let admin: AdminCredential?
    private let slow: SlowStatementLog
    private let brief: BriefRead
    private let rebuilds = Rebuilds()
    /// The folder for rows that wait for slow clients.
    private let rowFolder: String
    private let secretsKey: String?
    private let bounds: Bounds

    /// Bounds that a deployment or a test may set.
    public struct Bounds: Sendable {
        /// Longest wait of a request for the state it asks for.
        public var transactionWait = Limits.transactionWait
        /// Time for which answers to writes with an `Idempotency-Key` are kept.
        public var keptAnswers = Limits.keptAnswers
        /// Seconds since 1970, for their age.
        public var nowSeconds: @Sendable () -> Int64 = SystemClock.seconds
        /// Most of them for one user.
        public var keptAnswersPerUser = Limits.keptAnswersPerUser
        /// Most writes of one database that wait in one lane.
        public var waitingWrites = Limits.waitingWrites
        /// Most statements of one database that wait for its fold, or have given that up.
        public var waitingForFold = Limits.waitingForFold
        /// Most streams of one credential.
        public var streamsOfCredential = Limits.streamsOfCredential
        /// Most bytes of the rows of one live query.
        public var observedBytes = Limits.observedBytes
        /// Most streams of this process.
        public var streams = Limits.streams
        /// Most bytes of an answer's rows, approximately.
        public var answerBytes = Limits.answerBytes
        /// Time from which a statement counts as slow.
        public var slowStatement = Limits.slowStatement
        /// The pause after a first failed call of a webhook.
        public var webhookPause = Limits.webhookFirstPause
        /// Time of one call of a webhook.
        public var webhookTimeout = Limits.webhookTimeout

        /// The bounds of `Limits`.
        public init() {}
    }

    /// - Parameters:
    ///   - projection: the storage of the projections.
    ///   - past: the folder for folds of the past, which are deleted when nobody reads them.
    ///   - pool: evaluates the statements, and bounds them.
    ///   - secretsKey: the file of the key that seals the secrets of webhooks; nil serves no webhooks.
    ///   - admin: the credential for `/admin/query-service/…`; nil serves only the health there.
    public init(
        log: any OperationLog, authenticator: Authenticator, projection: ProjectionPlace, past: String,
        bounds: Bounds = Bounds(), pool: EvaluationPool = EvaluationPool(), admin: AdminCredential? = nil,
        secretsKey: String? = nil, logger: Logger
    ) {
        self.pool = pool
        self.admin = admin
        slow = SlowStatementLog(from: bounds.slowStatement)
        rowFolder = "\(past)-rows"
        self.secretsKey = secretsKey
        self.bounds = bounds
        self.log = log
        self.authenticator = authenticator
        self.logger = logger
        let statements = PreparedStatements()
        self.statements = statements
        let stores = ProjectionStores(projection, log: log, tails: "\(past)-tail", logger: logger)
        self.past = Past(
            log: log, folds: PastFolds(log: log, folder: past, logger: logger), times: PastTimes(log: log))
        slots = StreamSlots(most: bounds.streams, ofCredential: bounds.streamsOfCredential)
        self.stores = stores
        let (lost, continuation) = AsyncStream.makeStream(of: Projection.self)
        self.lost = lost
        projections = OpenDatabases(logger: logger) { database in
            try await Projection.open(
                database, log: log, in: stores, bounds: bounds, statements: statements, pool: pool,
                erased: { authenticator.system?.directory.erasedDocuments[database] },
                whenLost: { continuation.yield($0) })
        }
        brief = BriefRead(authenticator, projections, statements, pool, slow, bounds)
    }

    /// Serves `POST /api/v4/store/execute` (strict mode) and `POST /api/v5/store/execute`, and the lists of
    /// running statements.
    public func mount(on mount: inout ServiceMount) {
        mount.background("streams") { [self] in
            while true {
                try await Task.sleep(for: Limits.streamLook)
                for projection in projections.all { projection.recent.wake() }
                observations.wake()
                await past.folds.expire()
            }
        }
        let feeds = FeedRoutes(
            log: log, authenticator: authenticator, past: past, slots: slots, pool: pool,
            projection: { [self] in try await projection(of: $0) },
            isDraining: { [self] in isDraining.withLock { $0 } })
        feeds.mount(on: &mount)
        ConflictRoutes(
            log: log, authenticator: authenticator, projection: { [self] in try await projection(of: $0) }
        ).mount(on: &mount)
        ObserveRoutes(feeds: feeds, observations: observations, statements: statements).mount(on: &mount)
        @Sendable func execute(
            _ statement: ExecuteRequest, _ identity: Identity, _ evaluation: Evaluation,
            after minimum: Offset?
        ) async throws -> ExecuteAnswer {
            let call = Call(isStrict: false, identity: identity, minimum: minimum, evaluation: evaluation)
            return try await evaluated(statement, call)
        }
        ImportRoute(feeds: feeds) { try await execute($0, $1, $2, after: nil) }.mount(on: &mount)
        LegacyRoutes(
            pool: pool,
            execute: {
                try await execute($0, $2, $3, after: try ExecuteRequest.transactionID($1.headers))
            }, identity: { [self] in try await identity(of: $0) }
        ).mount(on: &mount)
        mount.background("lag") { [self] in try await watchLag() }
        mount.background("lost histories") { [self] in
            for await projection in lost { await retire(projection) }
        }
        if let system = authenticator.system { mountErasure(system, on: &mount) }
        for (version, isStrict) in [("v4", true), ("v5", false)] {
            mount.on(.post, "/api/\(version)/store/execute", failure: ExecuteAnswer.failure) {
                [self] request, context in try await answer(request, context, isStrict: isStrict)
            }
            mount.brief("/api/\(version)/store/execute") { [brief] in
                brief.route($0, $1, isStrict: isStrict)
            }
        }
        RequestRoutes(pool: pool, log: log, authenticator: authenticator, admin: admin).mount(on: &mount)
        guard let admin else { return }
        mount.background("rebuilds") { [self] in
            for await database in rebuilds.wanted { await rebuild(database) }
        }
        AdminRoutes(
            log: log, authenticator: authenticator, admin: admin, slow: slow, rebuilds: rebuilds,
            projection: { [self] in try await projection(of: $0) },
            openProjection: { [projections] id in projections[id] }
        ).mount(on: &mount)
        guard let system = authenticator.system, let secretsKey else { return }
        let webhooks = WebhookDelivery.Shared(
            system: system, log: log, past: past, states: WebhookStates(), secretsKey: secretsKey,
            bounds: bounds, pool: pool, logger: logger,
            projection: { [self] in try await projection(of: $0) })
        WebhookRoutes(shared: webhooks, admin: admin).mount(on: &mount)
        mount.background("webhooks") { await Webhooks(shared: webhooks).run() }
    }

    private func mountErasure(_ system: SystemDatabase, on mount: inout ServiceMount) {
        let eraser = Eraser(
            system: system, holder: name, place: stores.place, logger: logger,
            work: Eraser.Work(
                isHeld: { [stores] in try await stores.keeps($0) },
                erase: { [projections, stores, past] database in
                    await past.folds.forget(database)
                    await projections.close(database, if: { _ in true }) { await $0.close() }
                    try await stores.erase(database)
                },
                clean: { [projections, stores, past] erasure in
                    await past.folds.forget(erasure.databaseID)
                    guard try await stores.keeps(erasure.databaseID) else { return }
                    let projection = try await projections(erasure.databaseID)
                    projection.recent.forget()
                    try await projection.store.compact(through: Offset(erasure.erasedThrough ?? 0))
                }))
        mount.background("erasure") { await eraser.run() }
    }

    /// Deletes a projection in a folder, and folds the log again.
    private func rebuild(_ database: DatabaseID) async {
        logger.notice("rebuilding a projection", metadata: ["database": "\(database)"])
        await projections.close(database, if: { _ in true }) { await $0.close(discards: true) }
        // A failure is that of the next statement, and of the health.
        try? await projection(of: database).store.advance()
        rebuilds.end(database)
    }

    /// Ends the streams, which have no end of their own.
    public func drain() async {
        isDraining.withLock { $0 = true }
        for projection in projections.all { projection.recent.wake() }
        observations.wake()
    }

    /// Closes every projection.
    public func stop() async {
        for projection in await projections.removeAll() { await projection.close() }
        await stores.close()
        await past.folds.close()
    }

    /// Not ready while the log takes no writes, and while no open projection can be used or is up to date.
    public func readiness() async -> [Unreadiness] {
        if isDraining.withLock({ $0 }) {
            return [
                Unreadiness(
                    part: name, code: ServiceErrorCode.stopping.rawValue, message: "the streams are ending")
            ]
        }
        if let refusal = log.status.refusal { return [.ofLog(name, code: refusal.code.rawValue)] }
        var failures: [Bool] = []
        for projection in projections.all {
            let isFailing = await projection.store.failure != nil
            failures.append(isFailing ? await !projection.store.hasLostHistory : false)
        }
        if failures.isEmpty, openingFailure.withLock({ $0 }) != nil { return [.ofProjection(name)] }
        return Unreadiness.ofFolds(name, failures: failures, lag: lag)
    }

    /// Compares projections with the log's heads, until the task is cancelled.
    private func watchLag() async throws {
        try await lag.run(
            open: { [projections] in projections.all.map(\.database) },
            look: { [log, projections] database in
                guard let found = projections.all.first(where: { $0.database == database }) else {
                    return nil
                }
                let head = try await log.head(of: database).offset
                return (head, await found.store.position.offset)
            })
    }

    /// Tells the projections' lags and the open streams.
    public func measure() async {
        lag.measure("mimeo_projection_lag")
        Measured.set("mimeo_http_streams", Double(slots.count))
    }

    /// Failing while the log accepts no writes, or a database cannot be opened or folded.
    public func health() async -> HealthCheck {
        if let refusal = log.status.refusal {
            return .failing("the log accepts no writes: \(refusal.code.rawValue)")
        }
        for projection in projections.all {
            // A projection that has lost its history is rebuilt at the next request.
            guard await projection.store.failure != nil, await !projection.store.hasLostHistory else {
                continue
            }
            return .failing("a database cannot be folded; see the service's log for the reason")
        }
        if openingFailure.withLock({ $0 }) != nil {
            return .failing("a database's projection cannot be opened; see the service's log for the reason")
        }
        return .ok
    }

    /// Executes a request. Every answer has the envelope of `ExecuteAnswer`; `failure` makes that of errors.
    private func answer(
        _ request: Request, _ context: ServiceContext, isStrict: Bool
    ) async throws -> Response {
        let identity = try await identity(of: request)
        let minimum = try ExecuteRequest.transactionID(request.headers)
        let sent = try await request.received(limitBytes: Limits.requestBytes, for: Account(identity))
        let evaluation = try pool.statement("", of: identity.credential, in: identity.databaseID)
        context.whenClientLeaves { evaluation.end(.abandoned) }
        do {
            let body = try await sent.unpacked(in: evaluation)
            var parsed = try await ExecuteRequest(body, takesTransactions: true, in: evaluation)
            parsed.key = try await body.key(request, of: identity, [isStrict ? 4 : 5], in: evaluation)
            if let text = try QueryValues(request).text("asOf") {
                guard parsed.asOf == nil else {
                    throw QueryError(.malformedRequest, "\"asOf\" stands in the query and in the body")
                }
                parsed.asOf = try PastPoint(text)
            }
            let wanted = parsed
            let call = Call(isStrict: isStrict, identity: identity, minimum: minimum, evaluation: evaluation)
            return try await naming(wanted) {
                switch AnswerForm(request) {
                case .lines: return try await lines(wanted, call, context)
                case let form: return try await answer(wanted, call, form, context)
                }
            }
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            pool.finish(evaluation)
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        } catch {
            pool.finish(evaluation)
            throw error
        }
    }

    /// The surroundings of one request's execution.
    private struct Call: Sendable {
        let isStrict: Bool
        let identity: Identity
        /// The oldest offset that may answer.
        let minimum: Offset?
        let evaluation: Evaluation
    }

    /// Adds to an error which statement of a transaction it is of.
    private func naming<Result>(
        _ request: ExecuteRequest, _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await body()
        } catch {
            guard let index = request.transaction?.running, !(error is TransactionFailure) else {
                throw error
            }
            throw TransactionFailure(index: index, error: error)
        }
    }

    /// Executes a statement and sends its rows one a line, and last the envelope without them. The statement
    /// ends when it has all rows, however slow the client is; an error after the first rows is the last line.
    private func lines(
        _ parsed: ExecuteRequest, _ call: Call, _ context: ServiceContext
    ) async throws -> Response {
        let spool = RowSpool(folder: rowFolder, for: Account(call.identity))
        var request = parsed
        request.rows = .lines(spool)
        let wanted = request
        Task {
            defer { pool.finish(call.evaluation) }
            do {
                let answer = try await naming(wanted) { try await evaluated(wanted, call) }
                spool.finish(with: .success(answer))
            } catch {
                spool.finish(with: .failure(error))
            }
        }
        var headers: HTTPFields = [:]
        if try await spool.first(), let name = HTTPField.Name(IdempotencyKey.repeatedField) {
            headers[name] = "true"
        }
        return StreamWriter.response(.lines, headers: headers, staysOpen: false, context) { [logger] stream in
            switch try await stream.add(linesOf: spool) {
            case .success(let last): try await stream.add(last, event: "end")
            case .failure(let error):
                try await stream.add(ExecuteAnswer.envelope(of: error, logger).body, event: "end")
            }
        }
    }

    /// The identity of a request whose database exists. Where a projection is open, the statement finds out
    /// at the log's head.
    private func identity(of request: Request) async throws -> Identity {
        let identity = try await authenticator.identity(for: request)
        if projections[identity.databaseID] != nil { return identity }
        guard try await log.databaseExists(identity.databaseID) else { throw QueryError(.unknownDatabase) }
        return identity
    }

    /// Executes a statement within the limits of the pool, and cancels it when its client has gone.
    private func answer(
        _ parsed: ExecuteRequest, _ call: Call, _ form: AnswerForm, _ context: ServiceContext
    ) async throws -> Response {
        let evaluation = call.evaluation
        defer { pool.finish(evaluation) }
        var request = parsed
        request.rows = .spooledBeyondFew(folder: rowFolder, form)
        let answer = try await evaluated(request, call)
        if let spool = answer.spool { return answer.response(with: spool, form, context) }
        guard !answer.isPlain || form == .cbor else { return answer.response }
        do {
            let bytes = try await evaluation.run {
                try evaluation.willPrint(answer)
                return answer.encoded(form)
            }
            return try .held(
                bytes, type: form.type, by: evaluation.held, context, headers: answer.repetition)
        } catch {
            // A write is reported even if its evaluation has ended meanwhile, or has no room for its answer.
            guard answer.mutatedDocumentIDs.isEmpty else { return answer.response }
            guard let error = error as? DQLError, [.timeout, .cancelled].contains(error.code) else {
                throw error
            }
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        }
    }

    /// Executes a statement; the reason why its evaluation ended is the error's.
    private func evaluated(_ request: ExecuteRequest, _ call: Call) async throws -> ExecuteAnswer {
        let evaluation = call.evaluation
        func note(_ rows: Int?, _ error: (any Error)?) {
            let now = Environment.system.wallMilliseconds()
            slow.note(evaluation, request.text, rows: rows, error: error, milliseconds: now)
            let kind = error == nil ? StatementKinds.kind(of: request.text) : "error"
            Measured.time(
                "mimeo_query_duration_seconds", [("kind", kind)], ContinuousClock.now - evaluation.begin)
            if let rows { Measured.count("mimeo_query_rows_total", by: Int64(rows)) }
        }
        do {
            let answer = try await execute(request, call)
            if !answer.isPlain { evaluation.leave(answer) }
            note(max(answer.items.count, evaluation.countedRows), nil)
            return answer
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            let ended = QueryError.ended(evaluation.end, after: pool.options.statementTime)
            note(nil, ended)
            throw ended
        } catch {
            note(nil, error)
            throw error
        }
    }

    private func execute(_ request: ExecuteRequest, _ call: Call) async throws -> ExecuteAnswer {
        let projection = try await projection(of: call.identity.databaseID)
        do {
            return try await projection.execute(
                request, isStrict: call.isStrict, call.identity, after: call.minimum, past, call.evaluation)
        } catch let error as OperationLogError where error.code == .unknownDatabase {
            throw QueryError(.unknownDatabase)
        } catch  where Self.isOfLostHistory(error) {
            // The log was reset to an earlier state, or truncated ahead of this projection, or the projection
            // is damaged. Nothing was written, so the statement runs again on a rebuilt projection.
            guard await projection.store.hasLostHistory else { throw error }
            await retire(projection)
            return try await self.projection(of: call.identity.databaseID)
                .execute(
                    request, isStrict: call.isStrict, call.identity, after: call.minimum, past,
                    call.evaluation)
        }
    }

    /// Returns whether a statement failed, before it wrote anything, because its projection is unusable.
    private static func isOfLostHistory(_ error: any Error) -> Bool {
        switch error {
        case let error as OperationLogError: [.corrupt, .truncated].contains(error.code)
        case let error as ReplicaError: [.closed, .damaged, .brokenLog].contains(error.code)
        case let error as DQLError: error.code == .unreadableDocument
        default: false
        }
    }

    /// Closes a projection whose log no longer has its history; the next statement opens another one.
    private func retire(_ projection: Projection) async {
        await projections.close(projection.database, if: { $0 === projection }) { [logger] projection in
            logger.warning(
                "the log lacks the projection's history, or the projection is damaged: it is rebuilt",
                metadata: ["database": "\(projection.database)"])
            await projection.close()
        }
    }

    private func projection(of database: DatabaseID) async throws -> Projection {
        do {
            let projection = try await projections(database)
            openingFailure.withLock { $0 = nil }
            return projection
        } catch {
            openingFailure.withLock { $0 = "\(error)" }
            throw error
        }
    }
}
