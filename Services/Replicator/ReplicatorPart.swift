import CRDT
import Identity
import Logging
import OperationLog
import ServiceKit
import Sync
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
    private let logger: Logger
    private let hubs: OpenDatabases<DatabaseHub>
    private let housekeeping: HousekeepingOptions
    private let rightsLook: Duration
    /// Hubs whose log does not have what they have folded, or what comes next.
    private let lost: AsyncStream<DatabaseHub>

    /// - Parameters:
    ///   - folder: where the materializations are kept, a folder each.
    ///   - rightsLook: how often running sessions are judged where nothing was heard.
    public init(
        log: any OperationLog, authenticator: Authenticator, folder: String,
        housekeeping: HousekeepingOptions = HousekeepingOptions(), rightsLook: Duration = Limits.rightsLook,
        logger: Logger
    ) {
        self.housekeeping = housekeeping
        self.rightsLook = rightsLook
        self.log = log
        self.authenticator = authenticator
        self.logger = logger
        let (lost, continuation) = AsyncStream.makeStream(of: DatabaseHub.self)
        self.lost = lost
        hubs = OpenDatabases(logger: logger) { database in
            try await DatabaseHub.open(
                database, log: log, folder: "\(folder)/\(database)", logger: logger,
                whenLost: { continuation.yield($0) })
        }
    }

    /// Serves `/_ditto/sync`, and keeps the storage bounded.
    public func mount(on mount: inout ServiceMount) {
        mount.background("housekeeping") { [self] in
            let jobs = Housekeeping(
                log: log, options: housekeeping, logger: logger,
                isOpen: { [hubs] database in hubs.all.contains { $0.database == database } },
                hub: { [hubs] database in try await hubs(database) },
                close: { [hubs] hub in
                    guard await hub.retireIfIdle(), hubs.remove(hub.database, if: { $0 === hub }) else {
                        return
                    }
                    await hub.close()
                })
            try await jobs.run()
        }
        mount.background("lost histories") { [self] in
            for await hub in lost { await retire(hub, of: hub.database) }
        }
        mount.background("revocations") { [self] in await followRevocations() }
        // A signing key retires at a time, without a change of the system database.
        mount.background("rights") { [self] in
            while true {
                try await Task.sleep(for: rightsLook)
                await judgeSessions()
            }
        }
        mount.webSocket("/_ditto/sync", subprotocols: ["mimeo.sync.1"]) { [self] request in
            let (identity, token) = try await authenticator.identity(for: request)
            guard try await log.databaseExists(identity.databaseID) else {
                throw ReplicatorError.unknownDatabase
            }
            return Guest(identity: identity, token: token)
        } answerHeaders: {
            [(PeerSync.challengeHeader, $0.challenge.text)]
        } handle: { [self] channel, guest, logger in
            do {
                try await serve(channel, guest, logger)
            } catch {
                logger.debug("a session ended", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Who has connected, and what it has to prove.
    private struct Guest: Sendable {
        let identity: Identity
        let token: String
        let challenge = PeerChallenge()

        /// Whether a hello's proof is the answer; a token that names no key asks for none.
        var isProven: (@Sendable ([UInt8]?) -> Bool)? {
            guard let peerKey = identity.peerKey else { return nil }
            return { [identity, token, challenge] proof in
                proof.map {
                    challenge.isAnswered(
                        by: $0, of: peerKey, databaseID: identity.databaseID, token: token)
                } ?? false
            }
        }
    }

    /// Closes every database.
    public func stop() async {
        for hub in await hubs.removeAll() { await hub.close() }
    }

    /// Something that the rights of sessions rest on has changed, a key revoked or a grant: `judge` is asked
    /// about the identity of every session of a database that runs here, and what it says holds at once.
    public func changeRights(
        in database: String, _ judge: @escaping @Sendable (Identity) -> RightsChange
    ) async {
        for hub in hubs.all where utf8Equal(hub.database, database) { await hub.changeRights(judge) }
    }

    /// Ends the sessions of whoever does not count any more, as soon as the system database says so.
    private func followRevocations() async {
        guard let changes = authenticator.changes else { return }
        for await _ in changes { await judgeSessions() }
    }

    private func judgeSessions() async {
        for hub in hubs.all {
            await hub.changeRights { [authenticator] identity in
                authenticator.refusal(of: identity).map { .ended($0.message) } ?? .same
            }
        }
    }

    /// Failing while the log takes no writes or a database cannot be folded.
    public func health() async -> HealthCheck {
        if let refusal = log.status.refusal {
            return .failing("the log takes no writes: \(refusal.code.rawValue)")
        }
        for hub in hubs.all {
            let materializer = hub.materializer
            // One whose log went back is built anew as soon as somebody asks for it.
            guard await materializer.failure != nil, await !materializer.hasLostHistory else { continue }
            return .failing("a database cannot be folded; see the log")
        }
        return .ok
    }

    private func serve(_ channel: WebSocketChannel, _ guest: Guest, _ logger: Logger) async throws {
        let identity = guest.identity
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = Sync.Limits.frameBytes + 4_096
        try await WebSocketConnection.run(over: channel, role: .server, configuration: configuration) {
            connection in
            let hub = try await self.hub(of: identity.databaseID)
            guard let number = await hub.enter() else {
                connection.close(WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
                return
            }
            let reason = await self.converse(connection, hub, number, guest)
            await hub.leave(number)
            logger.debug("a session ended", metadata: ["reason": "\(reason)"])
            if await hub.materializer.hasLostHistory { await self.retire(hub, of: identity.databaseID) }
        }
    }

    /// The database, built anew if its log lost what is folded, or was truncated ahead of it.
    private func hub(of database: String) async throws -> DatabaseHub {
        let hub = try await hubs(database)
        guard await hub.materializer.hasLostHistory else { return hub }
        await retire(hub, of: database)
        return try await hubs(database)
    }

    /// Closes a hub whose log does not have its history any more. Its peers come back by themselves.
    private func retire(_ hub: DatabaseHub, of database: String) async {
        guard hubs.remove(database, if: { $0 === hub }) else { return }
        logger.warning(
            "the log does not have what is folded, or what comes next: the documents are built anew",
            metadata: ["database": "\(database)"])
        await hub.endSessions()
        await hub.close()
    }

    private func converse(
        _ connection: WebSocketConnection, _ hub: DatabaseHub, _ number: UInt64, _ guest: Guest
    ) async -> SyncError {
        let identity = guest.identity
        let expiry = SessionExpiry(clock: .system)
        let rights = SessionRights(identity)
        let store = ServerStore(
            hub: hub, log: log, database: identity.databaseID, session: number, rights: rights,
            verify: { [self] token in try await verified(token, identity.databaseID) })
        let pump = SessionPump(store: store, logger: logger)
        expiry.begin(identity.expiresAtSeconds) { pump.deliver(.finish($0)) }
        defer { expiry.cancel() }
        rights.follow { identity, access in
            expiry.set(identity.expiresAtSeconds)
            if let access { pump.deliver(.grantChanged(access)) }
        }
        await hub.register(number, rights) { pump.deliver(.finish($0)) }
        let kept = await hub.partial(of: identity.peerKey)
        // Revoked since its token was looked at: from here on the watch tells.
        if let refusal = authenticator.refusal(of: identity) {
            pump.deliver(.finish(SyncError(.tokenRefused, refusal.message)))
        }
        let session = Session(
            Session.Configuration(
                role: .server(origin: number), databaseID: identity.databaseID, peerKey: "",
                wallMilliseconds: UInt64(max(0, Authenticator.systemSeconds())) * 1_000,
                access: ReadAccess(identity.rights), kept: kept, isProven: guest.isProven))
        return await pump.run(session, over: connection)
    }

    /// The identity of a newer token; nil while the keys cannot be had.
    private func verified(_ token: String, _ database: String) async throws -> Identity? {
        do {
            return try await authenticator.identity(token: token, databaseID: database)
        } catch let error as ServiceError where error.code == .issuerUnreachable {
            logger.warning("a newer token cannot be checked", metadata: ["reason": "\(error)"])
            return nil
        }
    }
}
