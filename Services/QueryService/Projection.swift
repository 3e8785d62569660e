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
    private var follower: Task<Void, Never>?
    private var writing: Task<ExecuteAnswer, any Error>?
    private var waitingWrites = 0

    static func open(_ database: String, log: any OperationLog, folder: String, logger: Logger) async throws
        -> Projection
    {
        let materializer = try await Materializer.open(database, log: log, folder: folder, logger: logger)
        let projection = Projection(database, log, materializer)
        await projection.follow()
        return projection
    }

    private init(_ database: String, _ log: any OperationLog, _ materializer: Materializer) {
        self.database = database
        self.log = log
        self.materializer = materializer
    }

    private func follow() { follower = Task { await materializer.run() } }

    func close() async {
        follower?.cancel()
        await materializer.close()
    }

    /// Executes a statement for an identity on a state no older than offset `minimum`.
    nonisolated func execute(
        _ request: ExecuteRequest, _ options: ExecutionOptions, _ identity: Identity, after minimum: UInt64?
    ) async throws -> ExecuteAnswer {
        let statement = try PreparedStatement(request.statement)
        guard statement.kind != .evict else { throw QueryError(.evictIsLocal) }
        for collection in statement.collectionsRead
        where !identity.grant.allowsReading(collection: collection) {
            guard collection.hasPrefix("system:") else { throw QueryError(.readNotGranted, collection) }
        }
        for collection in statement.collectionsWritten
        where !identity.grant.allowsWriting(collection: collection) {
            throw QueryError(.writeNotGranted, collection)
        }
        let head = try await log.head(of: database).offset
        guard await materializer.wait(for: max(minimum ?? 0, head), timeout: Limits.transactionWait) else {
            throw QueryError(.transactionNotReached)
        }
        guard statement.isReadOnly else { return try await write(statement, request.arguments, options) }
        return try await read(statement, request.arguments, options)
    }

    private nonisolated func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions
    ) async throws -> ExecuteAnswer {
        let replica = materializer.replica
        return try await materializer.executor.run {
            try replica.read { transaction in
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
        guard waitingWrites < Limits.waitingWrites else { throw QueryError(.overloaded) }
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

    /// Drafts, appends, folds. The actor is the projection's own; its sequence is what the log says, so a
    /// projection that was deleted or restored never repeats one.
    private func perform(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions
    ) async throws -> ExecuteAnswer {
        let replica = materializer.replica
        let actor = replica.actor
        let known = try await log.frontier(of: [actor], in: database)
        let sequence = (known[actor]?.sequence ?? 0) + 1
        let draft = try await materializer.executor.run {
            try replica.draft(as: actor, sequence: sequence) { transaction in
                try statement.execute(
                    in: transaction, arguments: arguments, options: options,
                    idGenerator: { Environment.system.generateDocumentID() })
            }
        }
        var offset = await materializer.position.offset
        if let operation = draft.operation { offset = try await append(operation) }
        return ExecuteAnswer(
            transactionID: offset, queryType: statement.kind, items: draft.value.rows,
            mutatedDocumentIDs: draft.value.mutatedDocumentIDs.map(\.value),
            warnings: draft.value.warnings.map(\.message) + draft.warnings)
    }

    private func append(_ operation: Operation) async throws -> UInt64 {
        let record = OperationRecord(
            actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
            bytes: operation.encoded())
        let request = AppendRequest(record: record, authorKey: "query-service:\(operation.actor)")
        guard case .appended(let offset)? = try await log.append([request], to: database).first else {
            throw QueryError(.conflict)
        }
        // The write is durable from here on; a projection that lags only delays the answer.
        _ = await materializer.wait(for: offset, timeout: Limits.transactionWait)
        return offset
    }
}
