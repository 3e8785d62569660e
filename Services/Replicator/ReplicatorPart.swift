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
    let sessions: SessionOptions
    private let admin: AdminCredential?
    private let draining = Mutex(Draining.no)
    /// The names of this instance's sessions, which no other instance behind one address has.
    let names = SessionNames()
    /// How far the folds are behind the log.
    let foldLag = LagWatch()
    /// How far the slowest sessions are; looked at when somebody asks for metrics.
    let sessionLag = LagWatch()
    let rightsLook: Duration
    /// Evaluates the sessions' subscriptions.
    let pool: EvaluationPool
    /// The evaluations at each database.
    let seats = Mutex<[DatabaseID: EvaluationSeats]>([:])
    let deadlines: DeadlineWatch
    /// Hubs whose log lacks operations that they have folded, or the next ones.
    let lost: AsyncStream<DatabaseHub>

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

    /// Serves `/_ditto/sync` and the admin routes, and runs the jobs of `ReplicatorJobs`.
    public func mount(on mount: inout ServiceMount) {
        mountJobs(on: &mount)
        if let admin {
            AdminRoutes(part: self, credential: admin, log: log, logger: logger).mount(on: &mount)
        }
        mountSync(on: &mount)
    }

    /// The database, rebuilt if its log lost what is folded, or was truncated ahead of it.
    func hub(of database: DatabaseID) async throws -> DatabaseHub {
        let hub = try await hubs(database)
        guard await hub.materializer.hasLostHistory else { return hub }
        await retire(hub, of: database)
        return try await hubs(database)
    }

    /// Closes a hub whose log does not have its history any more. Its peers come back by themselves.
    func retire(_ hub: DatabaseHub, of database: DatabaseID) async {
        await hubs.close(database, if: { $0 === hub }) { [logger] hub in
            logger.warning(
                "the log does not have what is folded, or what comes next: the documents are rebuilt",
                metadata: ["database": "\(database)"])
            await hub.endSessions()
            await hub.close()
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

    /// The instance's way of sending sessions away: not at all, until it is called off, or for good.
    enum Draining: Int, Comparable {
        case no, onRequest, forGood

        static func < (left: Draining, right: Draining) -> Bool { left.rawValue < right.rawValue }
    }

    /// A database that is open here; nil for one that is not.
    func openHub(of database: DatabaseID) -> DatabaseHub? {
        hubs.all.first { $0.database == database }
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
}
