import CRDT
import Exchange
import Identity
import Logging
import Machine
import OperationLog
import ServiceKit
import Sync
import Synchronization
import Transport
import WebSocket

/// The replicator: accepts peers' sync sessions and binds them to the log.
///
/// Databases are opened when their first peer comes, and closed some time after their last session.
/// Sessions keep no important state here: a peer continues at any other instance with its cursor.
public final class ReplicatorPart: ServicePart {
    /// `replicator`.
    public let name = "replicator"
    /// The port of a replicator in a process of its own.
    public static let defaultPort = 4002

    let log: any OperationLog
    let authenticator: Authenticator
    let logger: Logger
    let hubs: OpenDatabases<DatabaseHub>
    /// The materializations of the databases that are open here.
    let materializations: Materializations
    let housekeeping: HousekeepingOptions
    private let sessions: SessionOptions
    private let admin: AdminCredential?
    private let draining = Mutex(Draining.no)
    /// The names of this instance's sessions, which no other instance behind one address has.
    let names = SessionNames()
    /// How far the folds are behind the log.
    let foldLag = LagWatch()
    /// How far the slowest sessions are; looked at when somebody asks for metrics.
    let sessionLag = LagWatch()
    private let rightsLook: Duration
    /// Evaluates the sessions' subscriptions.
    private let pool: EvaluationPool
    /// The evaluations at each database.
    private let seats = Mutex<[DatabaseID: EvaluationSeats]>([:])
    private let deadlines: DeadlineWatch
    /// Hubs whose log does not have what they have folded, or what comes next.
    private let lost: AsyncStream<DatabaseHub>

    /// - Parameters:
    ///   - materializations: the process's; databases are opened in them.
    ///   - admin: the credential for `/admin/replicator/…`; nil serves only the health there.
    ///   - rightsLook: interval of checking running sessions without an event.
    ///   - pool: evaluates the subscriptions of the sessions.
    public init(
        log: any OperationLog, authenticator: Authenticator, materializations: Materializations,
        housekeeping: HousekeepingOptions = HousekeepingOptions(),
        sessions: SessionOptions = SessionOptions(), admin: AdminCredential? = nil,
        rightsLook: Duration = Limits.rightsLook, pool: EvaluationPool = EvaluationPool(), logger: Logger
    ) {
        self.pool = pool
        self.sessions = sessions
        deadlines = DeadlineWatch(clock: sessions.clock)
        self.admin = admin
        self.housekeeping = housekeeping
        self.rightsLook = rightsLook
        self.log = log
        self.authenticator = authenticator
        self.logger = logger
        self.materializations = materializations
        let (lost, continuation) = AsyncStream.makeStream(of: DatabaseHub.self)
        self.lost = lost
        hubs = OpenDatabases(logger: logger) { database in
            try await DatabaseHub.open(
                database, log: log, sharing: materializations,
                erased: { authenticator.system?.directory.erasedDocuments[database] },
                whenLost: { continuation.yield($0) })
        }
    }

    /// The offset after which a backup needs a database's log; nil for none.
    private func hold(of database: DatabaseID) -> Offset? {
        authenticator.system?.directory.hold(of: database, nowSeconds: SystemClock.seconds())
    }

    /// Serves `/_ditto/sync`, and keeps the storage bounded.
    public func mount(on mount: inout ServiceMount) {
        mount.background("housekeeping") { [self] in
            let jobs = Housekeeping(
                log: log, options: housekeeping, logger: logger,
                isOpen: { [hubs] database in hubs.all.contains { $0.database == database } },
                hub: { [hubs] database in try await hubs(database) },
                close: { [hubs] hub in
                    guard await hub.retireIfIdle() else { return }
                    await hubs.close(hub.database, if: { $0 === hub }) { await $0.close() }
                },
                open: { [hubs] in hubs.all },
                idle: IdleDatabases(kept: sessions.idleDatabases, patience: sessions.idlePatience),
                holds: { [self] in hold(of: $0) })
            try await jobs.run()
        }
        mount.background("databases of before") { [self] in await foldKnown() }
        mount.background("lag") { [self] in try await watchLag() }
        mount.background("lost histories") { [self] in
            for await hub in lost { await retire(hub, of: hub.database) }
        }
        if let system = authenticator.system { mountErasure(system, on: &mount) }
        mount.background("revocations") { [self] in await followRevocations() }
        // A signing key retires at a time, without a change of the system database.
        mount.background("rights") { [self] in
            while true {
                try await Task.sleep(for: rightsLook)
                await judgeSessions()
            }
        }
        mount.background("contact") { [self] in
            while true {
                try await Task.sleep(for: ServiceKit.Limits.contactLook)
                if let distrust { await endSessions(distrust) }
            }
        }
        mount.background("progress") { [self] in
            var (before, trimmed) = ([Offset](), [Offset]())
            while true {
                try await Task.sleep(for: Limits.progressInterval)
                let heads = hubs.all.map { $0.tellProgress() }.sorted()
                // A burst is over: what it has left free in between is the system's again.
                if heads == before, heads != trimmed {
                    FreeMemory.giveBack()
                    trimmed = heads
                }
                before = heads
            }
        }
        if let admin {
            AdminRoutes(part: self, credential: admin, log: log, logger: logger).mount(on: &mount)
        }
        mount.webSocket("/_ditto/sync", subprotocols: ["mimeo.sync.1"]) { [self] request in
            guard !isDraining else { throw ReplicatorError.draining }
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
                logger.debug("a session did not begin", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Opens what was folded here before, one after the other and beside the sessions, so that the first
    /// peer after a restart does not wait for what was written meanwhile.
    private func foldKnown() async {
        do {
            let known = FoldedBefore.databases(in: materializations.folder, of: try await log.databases())
            for database in known.prefix(sessions.idleDatabases) where !Task.isCancelled {
                // What cannot be opened is in the log; its first peer tries again.
                _ = try? await hubs(database)
            }
        } catch {
            logger.warning("the databases of before are opened when their peers come: \(error)")
        }
    }

    // MARK: Draining

    /// The audit of this process, if it has one.
    var audit: AuditLog? { authenticator.audit }

    /// True if no session begins here any more.
    public var isDraining: Bool { draining.withLock { $0 != .no } }

    /// How many sessions run here.
    var sessionCount: Int {
        get async {
            var count = 0
            for hub in hubs.all { count += await hub.sessions }
            return count
        }
    }

    /// Drains for good, because the host stops.
    public func drain() async { await drain(.forGood) }

    /// Takes no session any more, and sends away those that run: each is told to connect again, some at a
    /// time, and reaches another instance then. Returns when all have gone, or have had their time.
    func drain(_ kind: Draining) async {
        draining.withLock { $0 = max($0, kind) }
        var endings: [@Sendable (SyncError) -> Void] = []
        for hub in hubs.all { endings += await hub.endings() }
        let reason = SyncError(.goingAway, "this instance stops; connect again")
        let slice = max(Limits.drainSlice, endings.count / Limits.drainSlices)
        for start in stride(from: 0, to: endings.count, by: slice) {
            for end in endings[start..<min(endings.count, start + slice)] { end(reason) }
            try? await Task.sleep(for: Limits.drainPause)
        }
        let deadline = ContinuousClock.now + Limits.drainTimeout
        while await sessionCount > 0, ContinuousClock.now < deadline, !Task.isCancelled {
            try? await Task.sleep(for: Limits.drainPause)
        }
    }

    /// Takes sessions again; false when the host is stopping.
    func undrain() -> Bool {
        draining.withLock { draining in
            if draining == .onRequest { draining = .no }
            return draining == .no
        }
    }

    /// Whether the instance sends its sessions away, and for how long.
    enum Draining: Int, Comparable {
        case no, onRequest, forGood

        static func < (left: Draining, right: Draining) -> Bool { left.rawValue < right.rawValue }
    }

    /// A database that is open here; nil for one that is not.
    func openHub(of database: DatabaseID) -> DatabaseHub? {
        hubs.all.first { $0.database == database }
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

    /// Closes every database after its last sessions, whose connections are closed by now, have ended.
    public func stop() async {
        let deadline = ContinuousClock.now + Limits.drainTimeout
        while await sessionCount > 0, ContinuousClock.now < deadline {
            try? await Task.sleep(for: Limits.drainPause)
        }
        for hub in await hubs.removeAll() { await hub.close() }
    }

    /// Applies a change of the grounds of sessions' rights, a revoked key or a changed grant: `judge` is
    /// called with the identity of every session of a database that runs here, and its result applies at
    /// once.
    public func changeRights(
        in database: DatabaseID, _ judge: @escaping @Sendable (Identity) -> RightsChange
    ) async {
        for hub in hubs.all where hub.database == database { await hub.changeRights(judge) }
    }

    /// Ends the sessions whose credentials were revoked, as soon as the system database says so.
    private func followRevocations() async {
        guard let changes = authenticator.changes else { return }
        for await _ in changes { await judgeSessions() }
    }

    /// The end of a session whose credential cannot be checked any more; its peer tries again, and behind a
    /// load balancer at another instance. Nil while credentials can be checked.
    private var distrust: SyncError? {
        authenticator.distrust.map { SyncError(.unavailable, $0.message) }
    }

    private func endSessions(_ reason: SyncError) async {
        for hub in hubs.all {
            for end in await hub.endings() { end(reason) }
        }
    }

    func judgeSessions() async {
        for hub in hubs.all {
            await hub.changeRights { [authenticator] identity in
                authenticator.refusal(of: identity).map { .ended($0.message) } ?? .same
            }
        }
    }

    /// Failing while the log refuses writes, a database cannot be folded, or the instance drains.
    public func health() async -> HealthCheck {
        if isDraining { return .failing("draining") }
        if let refusal = log.status.refusal {
            return .failing("the log takes no writes: \(refusal.code.rawValue)")
        }
        for hub in hubs.all {
            let materializer = hub.materializer
            // One whose log went back is rebuilt as soon as somebody asks for it.
            guard await materializer.failure != nil, await !materializer.hasLostHistory else { continue }
            return .failing("a database cannot be folded; see the log")
        }
        return .ok
    }

    /// Begins a session and returns: an open one has no task, neither here nor at the server, that waits
    /// for its end.
    private func serve(_ channel: WebSocketChannel, _ guest: Guest, _ logger: Logger) async throws {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = Sync.Limits.frameBytes + 4_096
        configuration.keepAliveInterval = sessions.keepAlive
        let connection = try await WebSocketConnection.open(
            over: channel, role: .server, configuration: configuration)
        do {
            guard let hub = try await self.hub(of: guest.identity.databaseID, for: connection) else { return }
            guard let number = await hub.enter() else {
                return connection.finish(
                    WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
            }
            await begin(connection, hub, number, guest, logger)
        } catch {
            // The database cannot be opened now: its peer comes back later.
            connection.finish(WebSocketClose(code: 1011, reason: SyncErrorCode.unavailable.rawValue))
            throw error
        }
    }

    /// The database, for one who waits no longer than he should: while it goes on being opened, another
    /// instance may have it open.
    private func hub(
        of database: DatabaseID, for connection: WebSocketConnection
    ) async throws -> DatabaseHub? {
        let deadline = deadlines.note(sessions.clock.nowSeconds() + sessions.openingSeconds) {
            connection.finish(WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
        }
        do {
            let hub = try await hub(of: database)
            // Who was sent elsewhere takes nobody's place.
            return deadlines.forget(deadline) ? hub : nil
        } catch {
            deadlines.forget(deadline)
            throw error
        }
    }

    private func ended(_ number: UInt64, at hub: DatabaseHub) async {
        await hub.leave(number)
        if await hub.materializer.hasLostHistory { await retire(hub, of: hub.database) }
    }

    /// The database, rebuilt if its log lost what is folded, or was truncated ahead of it.
    func hub(of database: DatabaseID) async throws -> DatabaseHub {
        let hub = try await hubs(database)
        guard await hub.materializer.hasLostHistory else { return hub }
        await retire(hub, of: database)
        return try await hubs(database)
    }

    /// Closes a hub whose log does not have its history any more. Its peers come back by themselves.
    private func retire(_ hub: DatabaseHub, of database: DatabaseID) async {
        await hubs.close(database, if: { $0 === hub }) { [logger] hub in
            logger.warning(
                "the log does not have what is folded, or what comes next: the documents are rebuilt",
                metadata: ["database": "\(database)"])
            await hub.endSessions()
            await hub.close()
        }
    }

    private func begin(
        _ connection: WebSocketConnection, _ hub: DatabaseHub, _ number: UInt64, _ guest: Guest,
        _ logger: Logger
    ) async {
        let identity = guest.identity
        let (expiry, greeting) = (SessionDeadline(deadlines), SessionDeadline(deadlines))
        let rights = SessionRights(identity)
        let start = ContinuousClock.now
        noteStart(of: number, identity)
        let evaluator = PooledEvaluator(pool, seats: seats(of: identity.databaseID), identity)
        let store = ServerStore(
            hub: hub, log: log, database: identity.databaseID, session: number, rights: rights,
            evaluator: evaluator,
            verify: { [self] token in try await verified(token, identity.databaseID) },
            greeted: { greeting.cancel() })
        let pump = SessionPump(store: store, logger: logger)
        greeting.begin(sessions.clock.nowSeconds() + sessions.greetingSeconds) {
            pump.deliver(.finish(SyncError(.unexpectedMessage, "no greeting came in time")))
        }
        expiry.begin(identity.expiresAtSeconds) {
            pump.deliver(.finish(SyncError(.expired, "the access token has expired")))
        }
        rights.follow { identity, access in
            expiry.set(identity.expiresAtSeconds)
            if let access { pump.deliver(.grantChanged(access)) }
        }
        let load = { @Sendable in
            SessionReport.Load(unsentBytes: pump.load.bytes, catchingUp: pump.load.catchingUp)
        }
        await hub.register(number, rights, load: load) { pump.deliver(.finish($0)) }
        let kept = await hub.partial(of: identity.peerKey)
        // Revoked since its token was looked at: from here on the watch tells.
        if let refusal = authenticator.refusal(of: identity) {
            pump.deliver(.finish(SyncError(.tokenRefused, refusal.message)))
        }
        if let distrust { pump.deliver(.finish(distrust)) }
        // One that slipped in while the others were sent away.
        if isDraining { pump.deliver(.finish(SyncError(.goingAway, "this instance stops; connect again"))) }
        pump.begin(live(guest, hub, number, kept, evaluator), over: connection) { [self] reason in
            expiry.cancel()
            greeting.cancel()
            rights.unfollow()
            noteEnd(of: number, rights.identity, since: start, reason)
            Task { await ended(number, at: hub) }
        }
    }

    private func live(
        _ guest: Guest, _ hub: DatabaseHub, _ number: UInt64, _ kept: PartialMessage?,
        _ evaluator: PooledEvaluator
    ) -> LiveSession {
        let identity = guest.identity
        var configuration = Session.Configuration(
            role: .server(origin: number), databaseID: identity.databaseID, peerKey: "",
            wallMilliseconds: UInt64(max(0, SystemClock.seconds())) * 1_000,
            access: ReadAccess(identity.rights), kept: kept, isProven: guest.isProven)
        configuration.sharing = hub.sharing(for: number)
        configuration.hasPresence = true
        configuration.interruption = { evaluator.interruption(of: $0) }
        configuration.trace(to: logger)
        return LiveSession(Session(configuration))
    }

    /// The places of those who read a database's documents; those of one that was closed are forgotten with
    /// the process, a few bytes each.
    private func seats(of database: DatabaseID) -> EvaluationSeats {
        seats.withLock { seats in
            if let known = seats[database] { return known }
            let made = EvaluationSeats(ServiceKit.Limits.evaluationsOfStore)
            seats[database] = made
            return made
        }
    }

    /// The identity of a newer token; nil while the keys cannot be had.
    private func verified(_ token: String, _ database: DatabaseID) async throws -> Identity? {
        do {
            return try await authenticator.identity(token: token, databaseID: database)
        } catch let error as ServiceError
            where [.issuerUnreachable, .contactLost, .restoreNotAccepted].contains(error.code)
        {
            logger.warning("a newer token cannot be checked", metadata: ["reason": "\(error)"])
            return nil
        }
    }
}
