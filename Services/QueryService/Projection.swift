import CRDT
import DQL
import Identity
import Logging
import OperationLog
import Replica
import ServiceKit

/// One database's embedded projection and the writes that go through this process.
///
/// Writes of this process run one after the other (`writing`): a statement is drafted against the
/// projection, appended to the log, folded, answered; so each sees the one before. Writers elsewhere are
/// merged like any concurrent write.
actor Projection {
    nonisolated let materializer: Materializer
    private let log: any OperationLog
    private let database: String
    private let bounds: QueryServicePart.Bounds
    private let statements: PreparedStatements
    private var follower: Task<Void, Never>?
    private var writing: Task<ExecuteAnswer, any Error>?
    private var waitingWrites = 0
    /// The offset of the last write of this process. No draft begins before it is folded: a stamp exceeds
    /// every earlier one of its actor.
    private var written: UInt64 = 0

    static func open(
        _ database: String, log: any OperationLog, folder: String, bounds: QueryServicePart.Bounds,
        statements: PreparedStatements, logger: Logger
    ) async throws -> Projection {
        let materializer = try await Materializer.open(database, log: log, folder: folder, logger: logger)
        let projection = Projection(database, log, materializer, bounds, statements)
        await projection.follow()
        return projection
    }

    private init(
        _ database: String, _ log: any OperationLog, _ materializer: Materializer,
        _ bounds: QueryServicePart.Bounds, _ statements: PreparedStatements
    ) {
        self.database = database
        self.log = log
        self.materializer = materializer
        self.bounds = bounds
        self.statements = statements
    }

    private func follow() { follower = Task { await materializer.run() } }

    func close() async {
        follower?.cancel()
        _ = try? await writing?.value
        await materializer.close()
    }

    /// Executes a statement for an identity on a state no older than offset `minimum`.
    nonisolated func execute(
        _ request: ExecuteRequest, isStrict: Bool, _ identity: Identity, after minimum: UInt64?
    ) async throws -> ExecuteAnswer {
        let statement = try statements.prepare(request.statement)
        guard statement.kind != .evict else { throw QueryError(.evictIsLocal) }
        guard statement.kind != .alterSystem else { throw QueryError(.parametersAreLocal) }
        for collection in statement.collectionsRead
        where !identity.grant.allowsReading(collection: collection) {
            guard collection.hasPrefix("system:") else { throw QueryError(.readNotGranted, collection) }
        }
        for collection in statement.collectionsWritten
        where !identity.grant.allowsWriting(collection: collection) {
            throw QueryError(.writeNotGranted, collection)
        }
        let head = try await log.head(of: database).offset
        if await materializer.position.offset < head { try await materializer.advance() }
        guard await materializer.wait(for: max(minimum ?? 0, head), timeout: bounds.transactionWait) else {
            throw QueryError(.transactionNotReached)
        }
        let options = options(isStrict: isStrict)
        guard statement.isReadOnly else { return try await write(statement, request.arguments, options) }
        return try await read(statement, request.arguments, options, identity.grant)
    }

    /// What a statement that begins now is executed with.
    private nonisolated func options(isStrict: Bool) -> ExecutionOptions {
        let deadline = ContinuousClock.now + bounds.statementTime
        let now = Int64(clamping: Environment.system.wallMilliseconds())
        var options = ExecutionOptions(
            strictMode: isStrict, context: FunctionContext(now: now, timeZones: SystemTimeZones()))
        options.interruption = { ContinuousClock.now < deadline ? nil : .timeout }
        return options
    }

    private nonisolated func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ grant: Grant
    ) async throws -> ExecuteAnswer {
        let replica = materializer.replica
        return try await materializer.executor.run {
            try replica.read { transaction in
                var options = options
                options.system = QuerySystemCollections(
                    names: try transaction.collectionNames(), grant: grant)
                var rows: [Value] = []
                let warnings = try statement.forEachRow(
                    in: transaction, arguments: arguments, options: options
                ) { row in
                    rows.append(row)
                    return true
                }
                return ExecuteAnswer(
                    transactionID: try transaction.head(), queryType: statement.kind, items: rows,
                    warnings: warnings.map(\.message))
            }
        }
    }

    private func write(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions
    ) async throws -> ExecuteAnswer {
        guard waitingWrites < bounds.waitingWrites else { throw QueryError(.overloaded) }
        waitingWrites += 1
        defer { waitingWrites -= 1 }
        let previous = writing
        let task = Task {
            _ = try? await previous?.value
            return try await self.perform(statement, arguments, options)
        }
        writing = task
        return try await task.value
    }

    /// Drafts, appends, folds. When the log says that somebody else wrote as this projection's actor (its
    /// folder was copied), the statement runs again under a new one.
    private func perform(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions
    ) async throws -> ExecuteAnswer {
        if await materializer.position.offset < written { try await materializer.advance() }
        for _ in 0..<Limits.writeAttempts {
            let actor = materializer.replica.actor
            let draft = try await draft(statement, arguments, options, as: actor)
            var answer = ExecuteAnswer(
                transactionID: await materializer.position.offset, queryType: statement.kind,
                items: draft.result.rows, mutatedDocumentIDs: draft.result.mutatedDocumentIDs.map(\.value),
                warnings: draft.result.warnings.map(\.message) + draft.warnings)
            guard let operation = draft.operation else { return answer }
            if let offset = try await append(operation) {
                answer.transactionID = offset
                return answer
            }
            let replica = materializer.replica
            try await materializer.executor.run { try replica.renewActor(actor) }
        }
        throw QueryError(.conflict)
    }

    private struct Draft: Sendable {
        let result: StatementResult
        let operation: Operation?
        let warnings: [String]
    }

    /// The sequence is what the log says, so a projection that was deleted or restored never repeats one.
    private func draft(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        as actor: ActorID
    ) async throws -> Draft {
        let sequence = (try await log.frontier(of: [actor], in: database)[actor]?.sequence ?? 0) + 1
        let replica = materializer.replica
        return try await materializer.executor.run {
            let draft = try replica.draft(as: actor, sequence: sequence) { transaction in
                try statement.execute(
                    in: transaction, arguments: arguments, options: options,
                    idGenerator: { Environment.system.generateDocumentID() })
            }
            return Draft(result: draft.value, operation: draft.operation, warnings: draft.warnings)
        }
    }

    /// The operation's offset; nil when the log has another history of its actor.
    private func append(_ operation: Operation) async throws -> UInt64? {
        let record = OperationRecord(
            actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
            bytes: operation.encoded())
        let request = AppendRequest(record: record, authorKey: "query-service:\(operation.actor)")
        guard case .appended(let offset)? = try await log.append([request], to: database).first else {
            return nil
        }
        written = offset
        // The write is durable from here on: a projection that cannot follow fails what comes next, not this.
        try? await materializer.advance()
        return offset
    }
}
