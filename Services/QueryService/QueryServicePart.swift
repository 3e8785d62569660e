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
/// Reads see everything that was in the log when the request came. Writes become operations of the log; the
/// answer comes after the projection has folded them, so a caller reads its own writes.
public final class QueryServicePart: ServicePart {
    /// `query-service`.
    public let name = "query-service"
    /// The port of a query-service in a process of its own.
    public static let defaultPort = 4003

    private let log: any OperationLog
    private let authenticator: Authenticator
    private let logger: Logger
    private let projections: OpenDatabases<Projection>
    private let stores: ProjectionStores
    /// Why the last opening of a projection failed; nil after one that did not.
    private let openingFailure = Mutex<String?>(nil)
    /// Projections whose log does not have what they have folded, or what comes next.
    private let lost: AsyncStream<Projection>

    /// What a deployment, or a test, may bound otherwise.
    public struct Bounds: Sendable {
        /// How long a request waits for the state it asks for.
        public var transactionWait = Limits.transactionWait
        /// How long a statement may run.
        public var statementTime = Limits.statementTime
        /// Writes of one database that may wait for their turn.
        public var waitingWrites = Limits.waitingWrites

        /// The bounds of `Limits`.
        public init() {}
    }

    /// - Parameter projection: where the projections are kept.
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
            mount.on(.post, "/api/\(version)/store/execute") { [self] request, _ in
                await answer(request, isStrict: isStrict)
            }
        }
    }

    /// Closes every projection.
    public func stop() async {
        for projection in await projections.removeAll() { await projection.close() }
        await stores.close()
    }

    /// Failing while the log takes no writes, or a database cannot be opened or folded.
    public func health() async -> HealthCheck {
        if let refusal = log.status.refusal {
            return .failing("the log takes no writes: \(refusal.code.rawValue)")
        }
        for projection in projections.all {
            // One whose log went back is built anew as soon as somebody asks for it.
            guard await projection.store.failure != nil, await !projection.store.hasLostHistory else {
                continue
            }
            return .failing("a database cannot be folded; see the log")
        }
        if openingFailure.withLock({ $0 }) != nil {
            return .failing("a database's projection cannot be opened; see the log")
        }
        return .ok
    }

    /// Every answer, failures too, has the envelope of `ExecuteAnswer`.
    private func answer(_ request: Request, isStrict: Bool) async -> Response {
        do {
            let identity = try await authenticator.identity(for: request)
            guard try await log.databaseExists(identity.databaseID) else {
                throw QueryError(.unknownDatabase)
            }
            let minimum = try ExecuteRequest.transactionID(request.headers)
            let parsed = try ExecuteRequest(try await request.wholeBody(limitBytes: Limits.requestBytes))
            let projection = try await projection(of: identity.databaseID)
            do {
                return try await projection.execute(parsed, isStrict: isStrict, identity, after: minimum)
                    .response
            } catch  where Self.isOfLostHistory(error) {
                // The log went back to an earlier state under this process, or was truncated ahead of it:
                // nothing was written, and what was folded is built anew.
                guard await projection.store.hasLostHistory else { throw error }
                await retire(projection)
                return try await self.projection(of: identity.databaseID)
                    .execute(parsed, isStrict: isStrict, identity, after: minimum).response
            }
        } catch {
            return ExecuteAnswer.failure(error, logger)
        }
    }

    /// What a statement fails with, before it has written anything, when what is folded is of no use.
    private static func isOfLostHistory(_ error: any Error) -> Bool {
        switch error {
        case let error as OperationLogError: [.corrupt, .truncated].contains(error.code)
        case let error as ReplicaError: error.code == .closed
        default: false
        }
    }

    /// Closes a projection whose log does not have its history any more; the next statement opens another.
    private func retire(_ projection: Projection) async {
        await projections.close(projection.database, if: { $0 === projection }) { [logger] projection in
            logger.warning(
                "the log does not have what is folded, or what comes next: the documents are built anew",
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
