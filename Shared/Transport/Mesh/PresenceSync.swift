import CRDT
import Exchange
import Identity
import Logging
import Machine
import NIOCore
import NIOPosix
import Sync
import Synchronization

/// Drives the presence of one peer (`PresenceGossip`): gives it the sessions of its links and with its
/// server, keys, time, and timers. It lives as long as the instance, so that its records go on counting when
/// links end and begin.
///
/// `state` guards everything. It is held while events are handled and frames are queued, and never across a
/// wait. `changed` is called without it.
public final class PresenceSync: Sendable {
    /// Keys and certificates of this peer.
    public struct Configuration: Sendable {
        /// The database.
        public var databaseID: DatabaseID
        /// The peer's key; asked once, when the first session opens.
        public var key: @Sendable () throws -> PeerKey
        /// Key, certificate and authority as of now.
        public var credentials: @Sendable () throws -> MeshCredentials

        /// A configuration of these parts.
        public init(
            databaseID: DatabaseID, key: @escaping @Sendable () throws -> PeerKey,
            credentials: @escaping @Sendable () throws -> MeshCredentials
        ) {
            self.databaseID = databaseID
            self.key = key
            self.credentials = credentials
        }
    }

    /// A session that takes news.
    struct Port: Sendable {
        /// Brings an event to the session.
        var deliver: @Sendable (Event) -> Void
        /// Bytes of frames that wait for the socket.
        var unsentBytes: @Sendable () -> Int
    }

    private struct State {
        var gossip: PresenceGossip?
        var settings = PresenceGossip.Settings()
        var facts = PresenceRecord.Facts()
        var boot: (starts: UInt64, start: UInt64)?
        var ports: [UInt64: Port] = [:]
        var lastPort: UInt64 = 0
        /// Links that were offered news and are busy, with the time from which on they get them anyway.
        var busy: [UInt64: Duration] = [:]
        var timer: (at: Duration, task: Scheduled<Void>)?
        var hasFailed = false
    }

    private let configuration: Configuration
    private let environment: Environment
    private let logger: Logger
    private let changed: Mutex<@Sendable () -> Void> = Mutex({})
    private let loop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next()
    private let started = ContinuousClock.now
    private let state = Mutex(State())

    /// The presence of a peer without sessions.
    public init(configuration: Configuration, environment: Environment, logger: Logger) {
        self.configuration = configuration
        self.environment = environment
        self.logger = logger
    }

    private var now: Duration { ContinuousClock.now - started }

    /// Sets the listener for changes of the graph; it is called from any thread, and must be quick.
    public func onChange(_ listener: @escaping @Sendable () -> Void) { changed.withLock { $0 = listener } }

    /// The peers around this one; nil before there was any session.
    public var graph: PresenceGraph? { state.withLock { $0.gossip?.graph } }

    /// Tells what is so of this peer now. Cheap if nothing has changed.
    public func set(_ facts: PresenceRecord.Facts) {
        handle { state in
            state.facts = facts
            return state.gossip == nil ? [] : [.facts(facts, certificate: self.certificate)]
        }
    }

    /// Sets the pace.
    public func set(_ settings: PresenceGossip.Settings) {
        handle { state in
            defer { state.settings = settings }
            return state.settings == settings ? [] : [.settings(settings)]
        }
    }

    /// The store has begun a feed, in this start.
    func began(_ greeting: MeshGreeting) {
        handle { state in
            state.boot = (greeting.starts, greeting.start)
            begin(&state)
            return [.began(starts: greeting.starts, start: greeting.start)]
        }
    }

    /// The own record for a greeting; nil if there is no key.
    func greeting() -> SignedRecord? {
        state.withLock { state in
            begin(&state)
            defer { wake(&state) }
            return state.gossip?.greeting(at: now)
        }
    }

    /// Tells all links that this peer leaves.
    func leave() { handle { $0.gossip == nil ? [] : [.leaving] } }

    /// A session takes news from now on. Returns its number.
    func open(_ neighbour: PresenceGossip.Neighbour, record: SignedRecord?, _ port: Port) -> UInt64 {
        var number: UInt64 = 0
        handle { state in
            begin(&state)
            state.lastPort += 1
            number = state.lastPort
            state.ports[number] = port
            return [.linked(number, neighbour, record)]
        }
        return number
    }

    /// News came over a session.
    func received(_ news: PresenceNews, over number: UInt64) {
        handle { $0.ports[number] == nil ? [] : [.received(number, news)] }
    }

    /// A session has ended.
    func close(_ number: UInt64) {
        handle { state in
            state.busy[number] = nil
            return state.ports.removeValue(forKey: number) == nil ? [] : [.unlinked(number)]
        }
    }

    // MARK: The machine

    /// The first session: the key is read, and the gossip begins.
    private func begin(_ state: inout State) {
        guard state.gossip == nil, !state.hasFailed else { return }
        do {
            let key = try configuration.key()
            var gossip = PresenceGossip(
                peerKey: key.publicKeyString, start: environment.random(), trust: trust(key))
            _ = gossip.receive(.settings(state.settings), at: now)
            _ = gossip.receive(.facts(state.facts, certificate: certificate), at: now)
            if let boot = state.boot {
                _ = gossip.receive(.began(starts: boot.starts, start: boot.start), at: now)
            }
            state.gossip = gossip
        } catch {
            state.hasFailed = true
            logger.error("presence has no key", metadata: ["error": "\(error)"])
        }
    }

    private var certificate: [UInt8]? { (try? configuration.credentials())?.certificate }

    private func trust(_ key: PeerKey) -> PresenceGossip.Trust {
        let (configuration, environment) = (configuration, environment)
        return PresenceGossip.Trust(
            sign: { PresenceSignature.sign($0, with: key) },
            isValid: { PresenceSignature.isValid($0.signature, of: $0.content, by: $1) },
            name: { PresenceSignature.name(of: $0) }, hash: { PresenceSignature.hash(ofCertificate: $0) },
            metadata: { der, peerKey in
                let seconds = Int64(environment.wallMilliseconds() / 1_000)
                guard
                    let identity = try? configuration.credentials().authority.verify(
                        der, databaseID: configuration.databaseID, nowSeconds: seconds),
                    identity.peerKey == peerKey
                else { return nil }
                return identity.metadata
            })
    }

    /// Handles events under the lock, and tells the listener of changes after it.
    private func handle(_ events: (inout State) -> [PresenceGossip.Event]) {
        let isChanged = state.withLock { state in
            let events = events(&state)
            guard state.gossip != nil else { return false }
            var isChanged = false
            for event in events { perform(event, &state, &isChanged) }
            wake(&state)
            return isChanged
        }
        if isChanged { changed.withLock { $0 }() }
    }

    private func perform(_ event: PresenceGossip.Event, _ state: inout State, _ isChanged: inout Bool) {
        for action in state.gossip?.receive(event, at: now) ?? [] {
            switch action {
            case .changed: isChanged = true
            case .warn(let text): logger.warning("\(text)")
            case .send(let number, let news): state.ports[number]?.deliver(.tell(news))
            case .offer(let number):
                guard let port = state.ports[number] else { continue }
                // Documents go first; but who is there is told, however long they take.
                if port.unsentBytes() > Limits.presenceUnsentBytes {
                    state.busy[number] = now + Limits.presencePatience
                } else {
                    perform(.ready(number), &state, &isChanged)
                }
            }
        }
    }

    private func wake(_ state: inout State) {
        var time = state.gossip?.wakesAt
        if !state.busy.isEmpty {
            let look = now + Limits.presenceLook
            time = time.map { min($0, look) } ?? look
        }
        guard let time else {
            state.timer?.task.cancel()
            return state.timer = nil
        }
        if let timer = state.timer, timer.at <= time, timer.at > now { return }
        state.timer?.task.cancel()
        let wait = max(time - now, .milliseconds(1))
        let task = loop.scheduleTask(in: .nanoseconds(wait.nanoseconds)) { [weak self] in
            self?.elapsed()
            return
        }
        state.timer = (time, task)
    }

    private func elapsed() {
        handle { state in
            state.timer = nil
            var events: [PresenceGossip.Event] = [.elapsed]
            for (number, deadline) in state.busy {
                let isFree = state.ports[number]?.unsentBytes() ?? 0 <= Limits.presenceUnsentBytes
                guard isFree || deadline <= now else { continue }
                state.busy[number] = nil
                events.append(.ready(number))
            }
            return events
        }
    }
}
