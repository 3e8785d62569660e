import CRDT
import DQL
import Exchange
import Foundation
import Logging
import Machine
import NIOSSL
import Replica
import Sync
import Synchronization
import WebSocket

/// Keeps a peer's replica in sync with a server: connects, runs the session, connects again.
///
/// Between `start` and `stop` there is one task, with one connection at most. `state` guards the
/// subscriptions, the task, the pump of the present session and the status; it is never held across a wait.
public final class PeerSync: Sendable {
    /// The server and the identity to connect with.
    public struct Configuration: Sendable {
        /// `ws://` or `wss://` address of the sync endpoint.
        public var address: WebSocketAddress
        /// The database.
        public var databaseID: DatabaseID
        /// The peer's public key text; empty when it has none.
        public var peerKey: String
        /// The access token for the next connection; a thrown error postpones the connection.
        public var token: @Sendable () async throws -> String
        /// The newest access token, nil for none: a running session continues under it (`renewToken`).
        public var newestToken: @Sendable () -> String? = { nil }
        /// Proves possession of `peerKey`: answers a connection's challenge, which is untrusted text, for
        /// the token that the connection was made with (`Mimeo-Challenge`, `wire.cddl`). Nil proves
        /// nothing.
        public var proof: @Sendable (_ challenge: String, _ token: String) -> [UInt8]? = { _, _ in nil }
        /// The documents that a token lets this peer write, as far as it says; nil leaves the check to the
        /// server.
        public var writeRules: @Sendable (_ token: String) -> Session.WriteRules? = { _ in nil }
        /// The presence that a server is told of; nil for none.
        public var presence: PresenceSync?
        /// TLS for `wss`.
        public var tls: TLSConfiguration
        /// The ping interval and the patience of the next connection; read for each connection.
        public var keepAlive: @Sendable () -> KeepAlive = { KeepAlive() }

        /// A configuration with the system's trusted authorities.
        public init(
            address: WebSocketAddress, databaseID: DatabaseID, peerKey: String,
            token: @escaping @Sendable () async throws -> String
        ) {
            self.address = address
            self.databaseID = databaseID
            self.peerKey = peerKey
            self.token = token
            tls = .trusting()
        }
    }

    /// Detects that the other side is gone.
    public struct KeepAlive: Sendable {
        /// The time between two pings.
        public var interval: Duration
        /// The time without a frame after which the connection is given up.
        public var patience: Duration

        /// The values of a WebSocket, unless others are given.
        public init(
            interval: Duration = WebSocketConfiguration().keepAliveInterval,
            patience: Duration = WebSocketConfiguration().keepAliveInterval * 3
        ) {
            self.interval = interval
            self.patience = patience
        }
    }

    /// The header field by which a server's answer to an upgrade asks for a proof.
    public static let challengeHeader = "Mimeo-Challenge"

    /// The state of the connection.
    public enum Status: Sendable, Equatable {
        /// Not started, or stopped.
        case stopped
        /// Connecting; with the reason why the last attempt or connection ended, if there was one.
        case connecting(lastError: String?)
        /// The session is open.
        case connected
    }

    /// Information for the application.
    public enum Notice: Sendable, Equatable {
        /// The status changed.
        case status(Status)
        /// The server has acknowledged own operations: `PeerReplica.acknowledgedCommit` may have grown.
        case acknowledged
        /// A subscription is up to date, or was refused; a write was refused; a history forked.
        case report(Report)
        /// The server refuses this token (HTTP 401 or 403 at the upgrade, or it expired, or it was sent
        /// during a session).
        case unauthorized(token: String, reason: String)
    }

    private struct Subscription: Sendable {
        let live: LiveSubscription
        var holders: Int
    }

    private struct State {
        var subscriptions: [[UInt8]: Subscription] = [:]
        var task: Task<Void, Never>?
        /// True while `stop` waits for the task; a `start` then begins after it.
        var isStopping = false
        var starts = 0
        var pump: SessionPump?
        /// True if the session under way ends only to begin again.
        var isRestarting = false
        /// The token that the session under way was given last.
        var token = ""
        var status = Status.stopped
    }

    private let replica: PeerReplica
    private let configuration: Configuration
    private let environment: Environment
    private let logger: Logger
    private let notify: @Sendable (Notice) -> Void
    private let executor = BlockingExecutor(label: "mimeo.peer-sync", isSerial: true)
    private let state = Mutex(State())
    private let kept = KeptMessage()
    /// The write rules of the newest token that a session was given.
    private let writeRules = Mutex<Session.WriteRules?>(nil)

    /// A stopped engine; `notify` is called from any thread and must be quick.
    public init(
        replica: PeerReplica, configuration: Configuration, environment: Environment, logger: Logger,
        notify: @escaping @Sendable (Notice) -> Void
    ) {
        self.replica = replica
        self.configuration = configuration
        self.environment = environment
        self.logger = logger
        self.notify = notify
    }

    /// The state of the connection.
    public var status: Status { state.withLock { $0.status } }

    /// Starts connecting, and continues until `stop`.
    public func start() {
        state.withLock { state in
            let previous = state.task
            guard previous == nil || state.isStopping else { return }
            state.isStopping = false
            state.starts += 1
            state.status = .connecting(lastError: nil)
            state.task = Task {
                // Two sessions on one store at once would discard each other's pages.
                await previous?.value
                await self.run()
            }
        }
    }

    /// Ends the connection and waits until all storing has ended.
    public func stop() async {
        let (task, starts) = state.withLock { state in
            state.isStopping = state.task != nil
            return (state.task, state.starts)
        }
        task?.cancel()
        await task?.value
        // In one step: a start that comes behind it says "connecting" after this has said "stopped".
        let hasChanged = state.withLock { state in
            guard state.starts == starts, state.task != nil else { return false }
            state.task = nil
            state.isStopping = false
            defer { state.status = .stopped }
            return state.status != .stopped
        }
        if hasChanged { notify(.status(.stopped)) }
    }

    /// Adds a subscription; equal ones are counted together. Returns its key.
    @discardableResult
    public func subscribe(statement: String, arguments: ObjectValue) throws -> [UInt8] {
        let live = try LiveSubscription(statement: statement, arguments: arguments)
        let key = live.key
        let (isNew, pump) = state.withLock { state in
            let isNew = state.subscriptions[key] == nil
            var entry = state.subscriptions[key] ?? Subscription(live: live, holders: 0)
            entry.holders += 1
            state.subscriptions[key] = entry
            return (isNew, state.pump)
        }
        guard isNew else { return key }
        updateLiveQueries()
        if let pump { pump.deliver(.subscribe(try live.request(from: replica))) }
        return key
    }

    /// Cancels one `subscribe`. The subscription's documents stay.
    public func unsubscribe(_ key: [UInt8]) {
        let pump = state.withLock { state -> SessionPump? in
            guard var entry = state.subscriptions[key] else { return nil }
            entry.holders -= 1
            state.subscriptions[key] = entry.holders > 0 ? entry : nil
            return entry.holders > 0 ? nil : state.pump
        }
        updateLiveQueries()
        pump?.deliver(.unsubscribe(key: key))
    }

    /// Announces a newer token (`Configuration.newestToken`): the running session, if any, continues under
    /// it.
    public func renewToken() {
        // Within the lock, so that of two at once the newer one is sent last.
        state.withLock { state in
            guard let pump = state.pump, let token = configuration.newestToken(), token != state.token else {
                return
            }
            state.token = token
            writeRules.withLock { $0 = configuration.writeRules(token) }
            pump.deliver(.renew(token: token))
        }
    }

    /// Ends the running session, if any, and begins the next one at once: some things take effect only when
    /// a session begins, such as the release of withheld collections (decision 0013). A connection that is
    /// being made begins anew too, since it may have passed that point.
    public func restartSession() {
        let pump = state.withLock { state in
            state.isRestarting = state.task != nil
            return state.pump
        }
        pump?.deliver(.finish(Self.restart))
    }

    private static let restart = SyncError(.goingAway, "the session begins again")

    private func updateLiveQueries() {
        // Within the lock, so that of two changes at once the later one is what the store knows.
        state.withLock { replica.setLiveQueries($0.subscriptions.values.map(\.live.query)) }
    }

    private func set(_ status: Status) {
        let changed = state.withLock { state in
            defer { state.status = status }
            return state.status != status
        }
        if changed { notify(.status(status)) }
    }

    private func run() async {
        var pause = ReconnectPause()
        var told: String?
        while !Task.isCancelled {
            let (reason, isHealthy) = await connect()
            noteEnd(reason, after: &told)
            guard !Task.isCancelled else { break }
            // Once: if the next attempt fails, it is followed by a pause like any other.
            let restarts = state.withLock { state in
                defer { state.isRestarting = false }
                return state.isRestarting
            }
            set(.connecting(lastError: restarts ? nil : reason))
            if restarts { continue }
            if isHealthy { pause.reset() }
            try? await Alarm.sleep(for: pause.next(random: environment.random()))
        }
    }

    /// Logs the end of a session or of an attempt. The reason of attempts that fail alike is shown once.
    private func noteEnd(_ reason: String, after told: inout String?) {
        let hadSession = state.withLock { $0.status == .connected }
        let reason = Task.isCancelled ? "sync was stopped" : reason
        defer { told = hadSession ? nil : reason }
        guard !hadSession else {
            return logger.info("the session with the server has ended", metadata: ["reason": "\(reason)"])
        }
        let isNew = reason != told && !Task.isCancelled
        logger.log(
            level: isNew ? .info : .debug, "there is no session with the server",
            metadata: ["reason": "\(reason)"])
    }

    /// One attempt: connects, runs the session to its end. Returns why it ended, and whether it was open for
    /// long, or was ended by nothing that the next attempt would only repeat (a refused write, a message that
    /// cannot be taken, a full disk). A link that breaks without a word is no such reason, unless it breaks
    /// at once: sessions over a link that keeps breaking must not wait longer each time.
    private func connect() async -> (reason: String, isHealthy: Bool) {
        let opened = Mutex(false)
        let started = ContinuousClock.now
        var token = ""
        do {
            token = try await configuration.token()
            state.withLock { [token] in $0.token = token }
            writeRules.withLock { $0 = configuration.writeRules(token) }
            var client = WebSocketConfiguration()
            client.maximumMessageBytes = Sync.Limits.frameBytes + 4_096
            client.set(configuration.keepAlive())
            let address = configuration.address
            // Without path and query, which may hold a secret.
            logger.debug(
                "connecting with the server",
                metadata: [
                    "host": "\(address.host)", "port": "\(address.port)", "tls": "\(address.isSecure)",
                ])
            let socket = WebSocketClient(
                address: address, headers: [("Authorization", "Bearer \(token)")],
                subprotocols: ["mimeo.sync.1"], configuration: client, tls: configuration.tls)
            let (error, isLost, farewell) = try await socket.run { [token] connection, answer in
                let proof = answer[Self.challengeHeader].flatMap { self.configuration.proof($0, token) }
                let error = try await self.converse(connection, proof) { opened.withLock { $0 = true } }
                let isCutOff = error == SessionPump.lost
                return (error, isCutOff && connection.isLost, isCutOff ? connection.farewell : nil)
            }
            tellUnauthorized(error, token)
            let lasted = ContinuousClock.now - started
            let passes =
                error.remedy != .reconnectLater || lasted > Limits.longestReconnectPause
                || isLost && lasted > Limits.shortestSession
            return (farewell ?? error.description, opened.withLock { $0 } && passes)
        } catch let error as WebSocketError {
            if error.status == 401 || error.status == 403 {
                notify(.unauthorized(token: token, reason: error.description))
            }
            return (error.description, opened.withLock { $0 })
        } catch {
            return ("\(error)", opened.withLock { $0 })
        }
    }

    /// The token has expired that the connection was made with, or one was not taken that was sent later. (If
    /// the later one has expired too, the next attempt tells.)
    private func tellUnauthorized(_ error: SyncError, _ token: String) {
        guard error.remedy == .reconnectWithToken else { return }
        let isSentLater = SyncErrorCode(rawValue: error.code) == .tokenRefused
        let refused = isSentLater ? state.withLock { $0.token } : token
        notify(.unauthorized(token: refused, reason: error.description))
    }

    private func converse(
        _ connection: WebSocketConnection, _ proof: [UInt8]?, whenOpen: @escaping @Sendable () -> Void
    ) async throws -> SyncError {
        let replica = replica
        // Pages that an earlier session staged stay where the server can go on after them: their subscription
        // is still here.
        let held = state.withLock { state in
            state.isRestarting = false
            return Array(state.subscriptions.keys)
        }
        try await executor.run {
            try replica.discardStaged(but: held)
            try replica.releaseWithheld()
        }
        let presence = ServerPresence(configuration.presence)
        let store = PeerStore(
            replica: replica, executor: executor,
            report: { [weak self] report in self?.heard(report, whenOpen) },
            acknowledged: { [notify] in notify(.acknowledged) }, presenceOpens: { presence.open() },
            kept: kept)
        let pump = SessionPump(store: store, logger: logger)
        presence.begin(pump)
        defer { presence.close() }
        let (subscriptions, restarts) = state.withLock { state in
            state.pump = pump
            return (state.subscriptions, state.isRestarting)
        }
        if restarts { pump.deliver(.finish(Self.restart)) }
        // A newer one may have come while the connection was made.
        renewToken()
        for (key, held) in subscriptions {
            let request = try await executor.run { try held.live.request(from: replica) }
            pump.deliver(.subscribe(request))
            // Cancelled while the cursor was read: `unsubscribe` has told the session too early.
            let isHeld = state.withLock { $0.subscriptions[key] != nil }
            if !isHeld { pump.deliver(.unsubscribe(key: key)) }
        }
        let listener = replica.addListener { commit in
            store.note(commit)
            if let actor = commit.actor { pump.deliver(.ownOperationAdded(actor)) }
            if !commit.wanted.isEmpty { pump.deliver(.wanted(commit.wanted)) }
            if commit.isMeshed { pump.deliver(.linksBrought) }
        }
        defer {
            replica.removeListener(listener)
            state.withLock { $0.pump = nil }
            replica.correctClock(byMilliseconds: 0)
        }
        var session = Session.Configuration(
            role: .peer, databaseID: configuration.databaseID, peerKey: configuration.peerKey,
            wallMilliseconds: environment.wallMilliseconds(),
            access: ReadAccess(collection: { _ in false }), kept: kept.message, proof: proof,
            writeRules: { [weak self] in self?.writeRules.withLock { $0 } })
        session.hasPresence = configuration.presence != nil
        session.trace(to: logger)
        return await pump.run(Session(session), over: connection)
    }

    private func heard(_ report: Report, _ whenOpen: @Sendable () -> Void) {
        if case .connected = report {
            whenOpen()
            logger.info("the session with the server has begun")
            set(.connected)
        }
        if case .writeRefused(let refusal) = report {
            logger.warning(
                "the server refused a write: its documents show the server's state again",
                metadata: ["reason": "\(refusal.error)"])
        }
        if case .historyForked = report {
            logger.error(
                "the server knows a later history of this store: it goes on as a new actor")
        }
        notify(.report(report))
    }
}

/// The presence of one session with a server: open from the moment at which the server takes it.
private final class ServerPresence: Sendable {
    private struct State: Sendable {
        weak var pump: SessionPump?
        var number: UInt64?
        var isOver = false
    }

    private let presence: PresenceSync?
    private let state = Mutex(State())

    init(_ presence: PresenceSync?) { self.presence = presence }

    func begin(_ pump: SessionPump) { state.withLock { $0.pump = pump } }

    func open() {
        guard let presence, let pump = state.withLock({ $0.isOver ? nil : $0.pump }) else { return }
        let number = presence.open(
            .server, record: nil,
            PresenceSync.Port(
                deliver: { [weak pump] in pump?.deliver($0) },
                unsentBytes: { [weak pump] in pump?.unsentBytes ?? 0 }))
        let isOver = state.withLock { state in
            state.number = number
            return state.isOver
        }
        if isOver { presence.close(number) }
    }

    func close() {
        let number = state.withLock { state in
            state.isOver = true
            return state.number
        }
        if let number { presence?.close(number) }
    }
}
