import CRDT
import DQL
import OperationLog
import Postgres
import Replica
import ServiceKit
import Synchronization

/// A projection in PostgreSQL, shared with other processes.
final class PostgresStore: ProjectionStore {
    private let projection: PostgresProjection
    // Who writes through this process: each opening is a store of its own to the log.
    private let writer: Mutex<ActorID>

    init(_ projection: PostgresProjection) {
        self.projection = projection
        writer = Mutex(ActorID(Environment.system.random()))
    }

    var position: LogPosition { get async { await projection.position } }
    var failure: String? { get async { await projection.failure } }
    var actor: ActorID { writer.withLock { $0 } }

    func run() async { await projection.run() }
    func advance() async throws { try await projection.advance() }
    func wait(for offset: UInt64, timeout: Duration) async -> Bool {
        await projection.wait(for: offset, timeout: timeout)
    }

    func read<Result: Sendable>(
        from offset: UInt64, _ body: @escaping @Sendable (any ProjectedDocuments) throws -> Result
    ) async throws -> Result {
        try await projection.read(from: offset) { try body($0) }
    }

    func draft(
        from offset: UInt64, sequence: UInt64,
        _ body: @escaping @Sendable (any DocumentWriter) throws -> StatementResult
    ) async throws -> StatementDraft {
        let draft = try await projection.draft(
            from: offset, as: actor, sequence: sequence,
            wallMilliseconds: Environment.system.wallMilliseconds()
        ) { try body($0) }
        return StatementDraft(
            result: draft.value, operation: draft.operation, warnings: draft.warnings, readAt: draft.readAt)
    }

    func renewActor(_ actor: ActorID) {
        let fresh = ActorID(Environment.system.random())
        writer.withLock { if $0 == actor { $0 = fresh } }
    }

    func close() async { await projection.close() }
}

extension ProjectionSnapshot: ProjectedDocuments {
    func offset() -> UInt64 { position.offset }
}
