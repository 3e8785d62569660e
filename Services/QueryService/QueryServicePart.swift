import CRDT
import DQL
import Hummingbird
import Identity
import Logging
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
    private let stores: ProjectionStores
    /// Error of the last opening of a projection; nil if it succeeded.
    private let openingFailure = Mutex<String?>(nil)
    /// Projections whose log lacks the folded history or the next operation.
    private let lost: AsyncStream<Projection>

    /// Bounds that a deployment or a test may set.
    public struct Bounds: Sendable {
        /// Longest wait of a request for the state it asks for.
        public var transactionWait = Limits.transactionWait
        /// Deadline of a statement.
        public var statementTime = Limits.statementTime
        /// Most writes of one database that wait.
        public var waitingWrites = Limits.waitingWrites

        /// The bounds of `Limits`.
        public init() {}
    }

    /// - Parameter projection: the storage of the projections.
    public init(
        log: any OperationLog, authenticator: Authenticator, projection: ProjectionPlace,
        bounds: Bounds = Bounds(), logger: Logger
    ) {
        self.log = log
        self.authenticator = authenticator
        self.logger = logger
        let statements = PreparedStatements()
        let stores = ProjectionStores(projection, logger: logger)
        self.stores = stores
        let (lost, continuation) = AsyncStream.makeStream(of: Projection.self)
        self.lost = lost
        projections = OpenDatabases(logger: logger) { database in
            try await Projection.open(
                database, log: log, in: stores, bounds: bounds, statements: statements,
                whenLost: { continuation.yield($0) })
        }
    }

    /// Serves `POST /api/v4/store/execute` (strict mode) and `POST /api/v5/store/execute`.
    public func mount(on mount: inout ServiceMount) {
        mount.background("lost histories") { [self] in
            for await projection in lost { await retire(projection) }
        }
        for (version, isStrict) in [("v4", true), ("v5", false)] {
            mount.on(.post, "/api/\(version)/store/execute", failure: ExecuteAnswer.failure) {
                [self] request, _ in try await answer(request, isStrict: isStrict)
            }
        }
    }

    /// Closes every projection.
    public func stop() async {
        for projection in await projections.removeAll() { await projection.close() }
        await stores.close()
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
    private func answer(_ request: Request, isStrict: Bool) async throws -> Response {
        let identity = try await authenticator.identity(for: request)
        guard try await log.databaseExists(identity.databaseID) else { throw QueryError(.unknownDatabase) }
        let minimum = try ExecuteRequest.transactionID(request.headers)
        let parsed = try ExecuteRequest(try await request.wholeBody(limitBytes: Limits.requestBytes))
        let projection = try await projection(of: identity.databaseID)
        do {
            return try await projection.execute(parsed, isStrict: isStrict, identity, after: minimum).response
        } catch  where Self.isOfLostHistory(error) {
            // The log was reset to an earlier state, or truncated ahead of this projection, or the projection
            // is damaged. Nothing was written, so the statement runs again on a rebuilt projection.
            guard await projection.store.hasLostHistory else { throw error }
            await retire(projection)
            return try await self.projection(of: identity.databaseID)
                .execute(parsed, isStrict: isStrict, identity, after: minimum).response
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
