import CRDT
import Exchange
import Identity
import Logging
import Machine
import NIOCore
import NIOPosix
import Sync
import Synchronization

/// The links of one peer: dials and accepts them, asks the application about each, and ends them.
///
/// `LinkTable` decides; this performs what it decides, with sockets (`LinkSockets`), timers and conversations
/// (`LinkSession`). Everything happens on one event loop, which guards the state; `seen` has a copy for other
/// threads. A link's own bytes are handled on the event loop of its channel.
public final class Mesh: Sendable {
    /// The wishes of the application; may change at any time.
    public struct Settings: Sendable, Equatable {
        /// Addresses that are dialed always.
        public var addresses: Set<MeshAddress> = []
        /// Addresses to take connections at.
        public var listeners: Set<MeshListener> = []
        /// Only peers of the same group sync with each other.
        public var syncGroup: UInt32 = 0
        /// The first pause after a failed dial.
        public var retryInterval = Limits.firstDialPause
        /// The time without any success after which dialing counts as failed.
        public var failureWindow = Limits.dialFailureWindow
        /// True if small packets are sent at once, over connections made later.
        public var sendsSmallPacketsAtOnce = true
        /// How peers are found.
        public var discovery = Discovery.Settings()

        /// Nothing to dial and to listen at.
        public init() {}
    }

    /// Everything that the mesh gets from its owner.
    struct Parts: Sendable {
        var databaseID: DatabaseID
        /// The own key, and this start of the store.
        var own: LinkTable.Remote
        var sockets: LinkSockets
        var environment: Environment
        var logger: Logger
        /// Begins a link's conversation.
        var begin: @Sendable (LinkStart) -> any LinkSession
        /// Asks the application about a link that has greeted.
        var ask: @Sendable (LinkedPeer) async -> Bool
        /// The links or the condition have changed.
        var changed: @Sendable () -> Void
    }

    /// A peer at the other end of a link.
    public struct LinkedPeer: Sendable, Equatable {
        /// The link's number.
        public let link: LinkID
        /// The peer's public key.
        public let peerKey: String
        /// The kind of the link.
        public let kind: LinkKind
        /// True if this side has dialed.
        public let isDialer: Bool
        /// The facts that the peer tells of itself.
        let record: SignedRecord?
        /// The identity that it has proven; nil without TLS.
        public let identity: Identity?
    }

    /// The state as others see it.
    public struct Seen: Sendable, Equatable {
        /// The open links, oldest first.
        public internal(set) var peers: [LinkedPeer] = []
        /// The ports of listeners that are open.
        public internal(set) var ports: [MeshListener: Int] = [:]
        /// The reasons why listeners cannot be opened.
        public internal(set) var listenFailures: [MeshListener: String] = [:]
        /// False once all dialing has failed for a while; nil before there was anything to tell.
        public internal(set) var isReaching: Bool?
        /// Each dialed address with the reason why its last link ended, nil while there is none.
        public internal(set) var dials: [MeshAddress: String?] = [:]
        /// The dialed addresses, for the choice among those that were found.
        var attempts: [MeshAddress: LinkChooser.Links.Dial] = [:]
    }

    private final class Live {
        var kind: LinkKind
        let isDialer: Bool
        var channel: (any Channel)?
        var connection: LinkConnection?
        var session: (any LinkSession)?
        var greeting: LinkGreeting?
        /// The identity of a certificate that came within the link, and the own one that was told.
        var renewed: Identity?
        var told: (certificate: [UInt8], endsAtSeconds: Int64)?
        /// A newer own certificate that the conversation was given, and has not sent yet.
        var offered: (certificate: [UInt8], endsAtSeconds: Int64)?
        /// True once the link may sync.
        var wasOpened = false
        init(_ kind: LinkKind, isDialer: Bool) {
            self.kind = kind
            self.isDialer = isDialer
        }
    }

    private final class State {
        var table: LinkTable
        var settings = Settings()
        /// The chosen ones of the addresses that were found.
        var found: Set<MeshAddress> = []
        var isRunning = false
        var live: [LinkID: Live] = [:]
        /// Listeners by number; a number is never used again.
        var numbers: [MeshListener: Int] = [:]
        var sockets: [MeshListener: any Channel] = [:]
        var failures: [MeshListener: String] = [:]
        var lastNumber = 0
        var timer: Scheduled<Void>?
        /// Callers of `stop`; the mesh answers each when nothing is open.
        var whenIdle: [PendingAnswer<Void>] = []
        init(_ table: LinkTable) { self.table = table }
    }

    private let parts: Parts
    /// The event loop of everything but the links' own bytes.
    let loop: any EventLoop
    private let state: NIOLoopBoundBox<State>
    private let started = ContinuousClock.now
    private let copy = Mutex(Seen())

    init(_ parts: Parts) {
        self.parts = parts
        let loop = parts.sockets.group.next()
        self.loop = loop
        state = .makeBoxSendingValue(State(LinkTable(own: parts.own)), eventLoop: loop)
    }

    /// The present links, ports and conditions.
    var seen: Seen { copy.withLock { $0 } }

    /// Begins to dial and to listen.
    func start() {
        onLoop { mesh, state in
            guard !state.isRunning else { return }
            state.isRunning = true
            mesh.apply(state)
        }
    }

    /// Ends all links and closes all ports; returns when they are closed.
    func stop() async {
        let stopped = PendingAnswer<Void>()
        onLoop { mesh, state in
            state.isRunning = false
            state.whenIdle.append(stopped)
            mesh.apply(state)
        }
        await stopped.value()
    }

    /// Takes other settings: at once, if it runs. Links and listeners that the new settings lack are closed.
    func configure(_ settings: Settings) {
        onLoop { mesh, state in
            guard settings != state.settings else { return }
            state.settings = settings
            if state.isRunning { mesh.apply(state) }
        }
    }

    /// Dials these addresses too, of those that were found; the links of others that were named here end.
    func dial(found addresses: Set<MeshAddress>) {
        onLoop { mesh, state in
            state.found = addresses
            if state.isRunning { mesh.apply(state) }
        }
    }

    // MARK: The table

    private func onLoop(_ body: @escaping @Sendable (Mesh, State) -> Void) {
        loop.execute { body(self, self.state.value) }
    }

    private var now: Duration { ContinuousClock.now - started }

    private func apply(_ state: State) {
        let wanted = state.isRunning ? state.settings : Settings()
        for listener in wanted.listeners where state.numbers[listener] == nil {
            state.lastNumber += 1
            state.numbers[listener] = state.lastNumber
            open(listener, state.lastNumber)
        }
        for listener in state.numbers.keys where !wanted.listeners.contains(listener) {
            state.numbers[listener] = nil
            state.failures[listener] = nil
            state.sockets.removeValue(forKey: listener)?.close(promise: nil)
        }
        receive(
            .set(
                LinkTable.Settings(
                    addresses: state.isRunning ? wanted.addresses.union(state.found) : [],
                    listeners: Set(state.numbers.values),
                    syncGroup: wanted.syncGroup, retryInterval: wanted.retryInterval,
                    failureWindow: wanted.failureWindow)), state)
    }

    private func receive(_ event: LinkTable.Event, _ state: State) {
        let actions = state.table.receive(event, at: now, random: parts.environment.random())
        for action in actions { perform(action, state) }
        state.timer?.cancel()
        state.timer = state.table.wakesAt.map { time in
            let wait = max(time - now, .milliseconds(1))
            return loop.scheduleTask(in: .nanoseconds(wait.nanoseconds)) { [weak self] in
                guard let self else { return }
                receive(.elapsed, self.state.value)
            }
        }
        publish(state)
    }

    private func perform(_ action: LinkTable.Action, _ state: State) {
        switch action {
        case .dial(let id, let address): dial(id, address, state)
        case .ask(let id):
            guard let peer = peer(id, state) else { return }
            Task { [parts] in
                let allows = await parts.ask(peer)
                self.onLoop { mesh, state in mesh.receive(.answered(id, allows: allows), state) }
            }
        case .open(let id): opened(id, state)
        case .close(let id, let reason): close(id, reason, state)
        case .warn(let text): parts.logger.warning("\(text)")
        }
    }

    private func publish(_ state: State) {
        let open = state.table.links.values.filter(\.isOpen).sorted { $0.id < $1.id }
        let seen = Seen(
            peers: open.compactMap { peer($0.id, state) },
            ports: state.sockets.compactMapValues { $0.localAddress?.port },
            listenFailures: state.failures, isReaching: state.table.isReaching(at: now),
            dials: state.table.dials.mapValues { $0.lastError?.description },
            attempts: state.table.attempts)
        let isNew = copy.withLock { copy in
            defer { copy = seen }
            return copy != seen
        }
        if isNew { parts.changed() }
        guard !state.isRunning, state.table.links.isEmpty, state.live.isEmpty else { return }
        for waiting in state.whenIdle { waiting.give(()) }
        state.whenIdle = []
    }

    private func peer(_ id: LinkID, _ state: State) -> LinkedPeer? {
        guard let live = state.live[id], let greeting = live.greeting else { return nil }
        return LinkedPeer(
            link: id, peerKey: greeting.peerKey, kind: live.kind, isDialer: live.isDialer,
            record: greeting.record, identity: live.renewed ?? live.connection?.verdict.identity)
    }

    // MARK: Links

    private func dial(_ id: LinkID, _ address: MeshAddress, _ state: State) {
        let kind: LinkKind = if case .tcp = address.kind { .tcp } else { .webSocket }
        state.live[id] = Live(kind, isDialer: true)
        var sockets = parts.sockets
        sockets.sendsSmallPacketsAtOnce = state.settings.sendsSmallPacketsAtOnce
        Task { [sockets] in
            do {
                let connection = try await sockets.dial(address)
                self.onLoop { mesh, state in mesh.attach(id, connection, state) }
            } catch {
                let reason = error as? SyncError ?? SyncError(.unavailable, "\(error)")
                self.onLoop { mesh, state in mesh.end(id, reason, state) }
            }
        }
    }

    private func open(_ listener: MeshListener, _ number: Int) {
        Task { [sockets = parts.sockets, loop] in
            do {
                let channel = try await sockets.listen(listener) { channel in
                    self.accept(channel, listener, number)
                } opened: { channel, connection in
                    self.onLoop { mesh, state in
                        guard let id = state.live.first(where: { $0.value.channel === channel })?.key else {
                            return connection.drop()
                        }
                        mesh.attach(id, connection, state)
                    }
                }
                loop.execute { self.opened(listener, number, channel) }
            } catch {
                let reason = LinkSockets.listenFailure(error).description
                loop.execute { self.failed(listener, number, reason) }
            }
        }
    }

    private func accept(_ channel: any Channel, _ listener: MeshListener, _ number: Int) {
        onLoop { mesh, state in
            let id = state.table.nextLink()
            let live = Live(listener.kind, isDialer: false)
            live.channel = channel
            state.live[id] = live
            mesh.receive(.accepted(id, listener: number), state)
            channel.closeFuture.whenComplete { _ in
                mesh.onLoop { mesh, state in
                    guard state.live[id]?.connection == nil else { return }
                    mesh.end(id, SyncError(.unavailable, "the connection was closed"), state)
                }
            }
        }
    }

    private func opened(_ listener: MeshListener, _ number: Int, _ channel: any Channel) {
        let state = state.value
        guard state.numbers[listener] == number else { return channel.close(promise: nil) }
        state.sockets[listener] = channel
        state.failures[listener] = nil
        parts.logger.info("listening for peers", metadata: ["address": "\(listener)"])
        publish(state)
    }

    private func failed(_ listener: MeshListener, _ number: Int, _ reason: String) {
        let state = state.value
        guard state.numbers[listener] == number else { return }
        if state.failures[listener] == nil {
            parts.logger.warning(
                "cannot listen for peers", metadata: ["address": "\(listener)", "error": "\(reason)"])
        }
        state.failures[listener] = reason
        publish(state)
        let pause = TimeAmount.nanoseconds(state.settings.retryInterval.nanoseconds)
        loop.scheduleTask(in: pause) { [weak self] in
            guard let self, self.state.value.numbers[listener] == number else { return }
            open(listener, number)
        }
    }

    /// A link has its pipe: waits until it is ready, and begins its conversation.
    private func attach(_ id: LinkID, _ connection: LinkConnection, _ state: State) {
        guard let live = state.live[id] else { return connection.drop() }
        live.channel = connection.channel
        live.connection = connection
        connection.ready.whenComplete { result in
            self.onLoop { mesh, state in
                switch result {
                case .success: mesh.begin(id, state)
                case .failure(let error):
                    connection.drop()
                    mesh.end(id, error as? SyncError ?? SyncError(.unavailable, "\(error)"), state)
                }
            }
        }
    }

    private func begin(_ id: LinkID, _ state: State) {
        guard let live = state.live[id], let connection = live.connection, live.session == nil else { return }
        if let key = connection.verdict.identity?.peerKey {
            OpeningHandler.release(connection.channel)
            receive(.proven(id, peerKey: key), state)
        }
        var verify: (@Sendable ([UInt8]) throws -> Identity)?
        // By the authority as it is then: it may be withdrawn, or have other keys.
        if connection.tls != nil {
            verify = { [security = parts.sockets.security] der in try security.identity(in: der) }
        }
        live.session = parts.begin(
            LinkStart(
                id: id, isDialer: live.isDialer, kind: live.kind, identity: connection.verdict.identity,
                channel: connection,
                syncGroup: state.settings.syncGroup, verify: verify,
                renewed: { identity in
                    self.onLoop { mesh, state in mesh.renewed(id, identity, state) }
                },
                told: { der in self.onLoop { mesh, state in mesh.told(id, der, state) } },
                greeted: { greeting in
                    self.onLoop { mesh, state in mesh.greeted(id, greeting, state) }
                },
                ended: { reason in
                    Task {
                        // The pipe knows better why it broke than the session, which only misses it.
                        let broken = reason == SessionPump.lost ? await connection.failure() : nil
                        self.onLoop { mesh, state in mesh.end(id, broken ?? reason, state) }
                    }
                }))
    }

    private func greeted(_ id: LinkID, _ greeting: LinkGreeting, _ state: State) {
        guard let live = state.live[id], let connection = live.connection, live.greeting == nil else {
            return
        }
        OpeningHandler.release(connection.channel)
        let identity = connection.verdict.identity
        if let identity, identity.peerKey != greeting.peerKey {
            live.session?.finish(
                SyncError(.keyNotProven, "the greeting names another key than the certificate"))
            return
        }
        live.greeting = greeting
        let remote = LinkTable.Remote(
            peerKey: greeting.peerKey, boot: greeting.boot,
            endsAt: identity.map {
                self.time(ofSeconds: min($0.expiresAtSeconds, connection.ownEndsAtSeconds))
            })
        receive(.greeted(id, remote), state)
    }

    /// The other side has proven a newer certificate within the link.
    private func renewed(_ id: LinkID, _ identity: Identity, _ state: State) {
        state.live[id]?.renewed = identity
        noteEnd(id, state)
    }

    /// A certificate of a link has changed: it ends with the earlier of both.
    private func noteEnd(_ id: LinkID, _ state: State) {
        guard let live = state.live[id], let connection = live.connection,
            let identity = live.renewed ?? connection.verdict.identity
        else { return }
        let own = live.told?.endsAtSeconds ?? connection.ownEndsAtSeconds
        receive(.renewed(id, endsAt: time(ofSeconds: min(identity.expiresAtSeconds, own))), state)
    }

    /// Tells the links a newer certificate of this peer, if there is one.
    func renewCertificates() {
        onLoop { mesh, state in
            guard let own = try? mesh.parts.sockets.security.tls() else { return }
            for link in state.table.links.values where link.isOpen {
                guard let live = state.live[link.id], let first = live.connection?.tls else { continue }
                let told =
                    live.told
                    ?? (certificate: first.ownCertificate, endsAtSeconds: first.ownEndsAtSeconds)
                guard told.certificate != own.ownCertificate, told.endsAtSeconds < own.ownEndsAtSeconds
                else { continue }
                live.offered = (own.ownCertificate, own.ownEndsAtSeconds)
                live.session?.renew(own.ownCertificate)
            }
        }
    }

    /// A conversation has sent the own certificate that it was given: an earlier moment, or a side that takes
    /// none, leaves the link its end.
    private func told(_ id: LinkID, _ der: [UInt8], _ state: State) {
        guard let live = state.live[id], let offered = live.offered, offered.certificate == der else {
            return
        }
        live.told = offered
        noteEnd(id, state)
    }

    private func time(ofSeconds end: Int64) -> Duration {
        let left = end - Int64(parts.environment.wallMilliseconds() / 1_000)
        return now + .seconds(left)
    }

    private func close(_ id: LinkID, _ reason: SyncError, _ state: State) {
        guard let live = state.live[id] else { return }
        if let session = live.session { return session.finish(reason) }
        // Nobody to tell yet: a connection without a greeting, or none at all.
        live.channel?.close(promise: nil)
        // Within the table's own call the link cannot leave it.
        onLoop { mesh, state in mesh.end(id, reason, state) }
    }

    /// The link may sync.
    private func opened(_ id: LinkID, _ state: State) {
        guard let live = state.live[id] else { return }
        live.wasOpened = true
        parts.logger.info(
            "linked with a peer",
            metadata: [
                "peer": "\(live.greeting?.peerKey ?? "")", "transport": "\(live.kind.rawValue)",
                "dialed": "\(live.isDialer)",
            ])
        live.session?.open()
    }

    private func end(_ id: LinkID, _ reason: SyncError, _ state: State) {
        guard let live = state.live.removeValue(forKey: id) else { return }
        parts.logger.log(
            level: live.wasOpened ? .info : .debug,
            live.wasOpened ? "a link with a peer has ended" : "no link came of a connection",
            metadata: [
                "peer": "\(live.greeting?.peerKey ?? "unknown")", "transport": "\(live.kind.rawValue)",
                "dialed": "\(live.isDialer)", "reason": "\(reason)",
            ])
        receive(.ended(id, reason), state)
    }
}
