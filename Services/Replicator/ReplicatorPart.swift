import Identity
import Logging
import OperationLog
import ServiceKit
import Sync
import Synchronization
import Transport

/// The replicator: accepts peers' sync sessions and binds them to the log.
///
/// Databases are opened when their first peer comes. Sessions keep nothing here that matters: a peer goes
/// on at any other instance with its cursor.
public final class ReplicatorPart: ServicePart {
    /// `replicator`.
    public let name = "replicator"
    /// The port of a replicator in a process of its own.
    public static let defaultPort = 4002

    private let log: any OperationLog
    private let authenticator: Authenticator
    private let folder: String
    private let logger: Logger
    /// The databases opened so far; a failed opening is forgotten, so that the next peer tries again.
    private let hubs = Mutex<[String: Task<DatabaseHub, any Error>]>([:])

    /// - Parameter folder: where the materializations are kept, a folder each.
    public init(log: any OperationLog, authenticator: Authenticator, folder: String, logger: Logger) {
        self.log = log
        self.authenticator = authenticator
        self.folder = folder
        self.logger = logger
    }

    /// Serves `/_ditto/sync`.
    public func mount(on mount: inout ServiceMount) {
        mount.webSocket("/_ditto/sync", subprotocols: ["mimeo.sync.1"]) { [self] request in
            let identity = try await authenticator.identity(for: request)
            guard try await log.databaseExists(identity.databaseID) else {
                throw ReplicatorError.unknownDatabase
            }
            return identity
        } handle: { [self] channel, identity, logger in
            do {
                try await serve(channel, identity, logger)
            } catch {
                logger.debug("a session ended", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Closes every database.
    public func stop() async {
        let opened = hubs.withLock { hubs in
            defer { hubs = [:] }
            return Array(hubs.values)
        }
        for task in opened { try? await task.value.close() }
    }

    /// Failing while the log takes no writes or a database cannot be folded.
    public func health() async -> HealthCheck {
        if let refusal = log.status.refusal {
            return .failing("the log takes no writes: \(refusal.code.rawValue)")
        }
        for task in hubs.withLock({ Array($0.values) }) {
            guard let hub = try? await task.value else { continue }
            if await hub.materializer.failure != nil {
                return .failing("a database cannot be folded; see the log")
            }
        }
        return .ok
    }

    private func serve(_ channel: WebSocketChannel, _ identity: Identity, _ logger: Logger) async throws {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = Sync.Limits.frameBytes + 4_096
        try await WebSocketConnection.run(over: channel, role: .server, configuration: configuration) {
            connection in
            let hub = try await self.hub(identity.databaseID)
            guard let number = await hub.enter() else {
                connection.close(WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
                return
            }
            let reason = await self.converse(connection, hub, number, identity)
            await hub.leave(number)
            logger.debug("a session ended", metadata: ["reason": "\(reason)"])
        }
    }

    private func converse(
        _ connection: WebSocketConnection, _ hub: DatabaseHub, _ number: UInt64, _ identity: Identity
    ) async -> SyncError {
        let store = ServerStore(
            hub: hub, log: log, database: identity.databaseID, session: number, identity: identity)
        let pump = SessionPump(store: store, logger: logger)
        let grant = identity.grant
        let session = Session(
            Session.Configuration(
                role: .server(origin: number), databaseID: identity.databaseID, peerKey: "",
                wallMilliseconds: UInt64(max(0, Authenticator.systemSeconds())) * 1_000,
                allowsReading: { grant.allowsReading(collection: $0) }))
        let expiry = Task {
            // In steps, since an issuer may put the end further away than a sleep can be long.
            while true {
                let rest = identity.expiresAtSeconds - Authenticator.systemSeconds()
                guard rest > 0 else { break }
                try await Task.sleep(for: .seconds(min(rest, Limits.longestExpirySleepSeconds)))
            }
            pump.deliver(.finish(SyncError(.expired, "the access token has expired")))
        }
        defer { expiry.cancel() }
        return await pump.run(session, over: connection)
    }

    private func hub(_ database: String) async throws -> DatabaseHub {
        let task = hubs.withLock { hubs in
            if let known = hubs[database] { return known }
            let opening = Task {
                try await DatabaseHub.open(
                    database, log: self.log, folder: "\(self.folder)/\(database)", logger: self.logger)
            }
            hubs[database] = opening
            return opening
        }
        do {
            return try await task.value
        } catch {
            hubs.withLock { $0[database] = nil }
            logger.error(
                "a database cannot be opened", metadata: ["database": "\(database)", "error": "\(error)"])
            throw error
        }
    }
}
