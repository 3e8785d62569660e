import CRDT
import DQL
import Identity
import Machine
import OperationLog
import ServiceKit
import Synchronization

/// One database's projection, in either kind of store, and the lanes of writes through this process.
///
/// A write tries the quick lane. If it takes longer than a moment there, it is done in a slow one, and so is
/// the same text from then on (`slow`). The slow lanes are made when they are needed.
actor Projection {
    nonisolated let store: any ProjectionStore
    private let log: any OperationLog
    nonisolated let database: DatabaseID
    private let bounds: QueryServicePart.Bounds
    private let statements: PreparedStatements
    private let quickLane: WriteLane
    private var slowLanes: [WriteLane] = []
    private let slow = SlowStatements()
    private var follower: Task<Void, Never>?

    static func open(
        _ database: DatabaseID, log: any OperationLog, in stores: ProjectionStores,
        bounds: QueryServicePart.Bounds, statements: PreparedStatements,
        whenLost: @escaping @Sendable (Projection) -> Void
    ) async throws -> Projection {
        let store = try await stores.open(database, log: log)
        let projection = Projection(database, log, store, bounds, statements)
        await projection.follow(whenLost)
        return projection
    }

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ bounds: QueryServicePart.Bounds, _ statements: PreparedStatements
    ) {
        self.database = database
        self.log = log
        self.store = store
        self.bounds = bounds
        self.statements = statements
        quickLane = WriteLane(database, log, store, bounds, isQuick: true)
    }

    /// Follows the log; calls `whenLost` if the log lacks the folded history or the next operation.
    private func follow(_ whenLost: @escaping @Sendable (Projection) -> Void) {
        follower = Task {
            await store.run()
            if await store.hasLostHistory { whenLost(self) }
        }
    }

    func close() async {
        follower?.cancel()
        for lane in [quickLane] + slowLanes { await lane.close() }
        await store.close()
    }

    /// Executes a statement for an identity on a state no older than offset `minimum`.
    nonisolated func execute(
        _ request: ExecuteRequest, isStrict: Bool, _ identity: Identity, after minimum: Offset?,
        _ evaluation: Evaluation
    ) async throws -> ExecuteAnswer {
        let statement = try await prepare(request.statement, evaluation)
        guard !statement.evicts else { throw QueryError(.evictIsLocal) }
        guard statement.kind != .alterSystem else { throw QueryError(.parametersAreLocal) }
        for collection in statement.collectionsRead
        where !identity.rights.read.allowsAny(of: collection) {
            guard collection.text.hasPrefix("system:") else {
                throw QueryError(.readNotGranted, collection.text)
            }
        }
        for collection in statement.collectionsWritten
        where !identity.rights.write.allowsAny(of: collection) {
            throw QueryError(.writeNotGranted, collection.text)
        }
        let head = try await log.head(of: database)
        // Also if the position is ahead of the head: the fold detects a log that was reset.
        let offset = max(minimum ?? 0, head.offset)
        if await store.position != head { try await store.advance() }
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw QueryError(.transactionNotReached)
        }
        var options = options(isStrict: isStrict)
        options.interruption = { evaluation.interruption() }
        let job = WriteLane.Job(
            statement: statement, arguments: request.arguments, options: options, rights: identity.rights,
            evaluation: evaluation)
        return statement.isReadOnly ? try await read(job, from: offset) : try await write(job)
    }

    /// Parses and analyzes a statement; a long one in a turn of its own.
    private nonisolated func prepare(
        _ text: String, _ evaluation: Evaluation
    ) async throws -> PreparedStatement {
        guard text.utf8.count > Limits.plainStatementBytes else { return try statements.prepare(text) }
        let statements = statements
        return try await evaluation.run { try statements.prepare(text) }
    }

    /// Execution options of a statement that begins now.
    private nonisolated func options(isStrict: Bool) -> ExecutionOptions {
        let now = Int64(clamping: Environment.system.wallMilliseconds())
        return ExecutionOptions(
            strictMode: isStrict, context: FunctionContext(now: now, timeZones: SystemTimeZones()))
    }

    private nonisolated func read(_ job: WriteLane.Job, from offset: Offset) async throws -> ExecuteAnswer {
        let statement = job.statement
        let rights = job.rights
        let isWhole = rights.coversWhole(statement)
        let limit = bounds.answerBytes
        return try await store.read(from: offset, job.evaluation) { documents in
            var options = job.options
            options.system = QuerySystemCollections(
                names: try documents.collectionNames(), rules: rights.read)
            let readable: any DocumentSource =
                isWhole ? documents : GrantedDocuments(base: documents, rules: rights.read)
            var rows: [Value] = []
            var bytes = AnswerBytes(limit: limit)
            let warnings = try statement.forEachRow(
                in: readable, arguments: job.arguments, options: options
            ) { row in
                rows.append(row)
                try bytes.add(row)
                job.evaluation.countRow()
                return true
            }
            return ExecuteAnswer(
                transactionID: try documents.offset(), queryType: statement.kind, items: rows,
                warnings: warnings.map(\.message))
        }
    }

    private func write(_ job: WriteLane.Job) async throws -> ExecuteAnswer {
        if !slow.contains(job) {
            do {
                return try await quickLane.write(job)
            } catch is WriteLane.TooSlow {
                slow.note(job)
            }
        }
        return try await lane(for: job.evaluation.purpose.credential).write(job)
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
        let lane = WriteLane(database, log, store, bounds, isQuick: false)
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

    private static func key(_ job: WriteLane.Job) -> String {
        var hasher = Hasher()
        hasher.combine(Array(job.statement.text.utf8))
        return "\(hasher.finalize()) \(job.evaluation.purpose.credential)"
    }
}
