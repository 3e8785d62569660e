import CRDT
import Logging
import Machine
import NIOCore
import Synchronization

/// Finds peers on the networks of this device, and is found by them: by beacons, on every interface, and by
/// DNS-SD where avahi runs (`ServiceFinder`).
///
/// `LinkChooser` decides which of the found peers are dialed; this brings it the hints, and hands its choice
/// to `Mesh`. Everything happens on one event loop, which guards the state; `seen` has a copy for other
/// threads.
public final class Discovery: Sendable {
    /// The wishes of the application; may change at any time.
    public struct Settings: Sendable, Equatable {
        /// True if beacons are sent and heard.
        public var usesMulticast = false
        /// True if this peer is announced by DNS-SD.
        public var announcesService = false
        /// True if peers are looked for by DNS-SD.
        public var looksForServices = false
        /// The listener whose port others are told.
        public var listener: MeshListener?
        /// Addresses to choose from beside those that are found.
        public var candidates: Set<MeshAddress> = []
        /// The UDP port of beacons.
        public var multicastPort = Limits.multicastPort
        /// The time between two beacons; a fifth of it is random.
        public var interval = Limits.beaconInterval
        /// Links that this side dials.
        public var outgoing = Limits.chosenLinks
        /// The time between two looks for a better choice.
        public var churnInterval = Limits.churnInterval
        /// A link younger than this is not given up for another one.
        public var churnAge = Limits.churnAge
        /// The pause after the first failure of an address; it doubles.
        public var cooldown = Limits.firstDialPause
        /// The pause of an address whose peer another try will not make a friend.
        public var blockTime = Limits.blockTime

        /// Nobody is looked for.
        public init() {}

        /// True if hints of any kind are wanted.
        var isAny: Bool { usesMulticast || usesServices || !candidates.isEmpty }

        var usesServices: Bool { announcesService || looksForServices }
    }

    /// The state as others see it.
    public struct Seen: Sendable, Equatable {
        /// True once another peer was heard.
        public internal(set) var hasHeard = false
        /// A way of finding peers works, or is about to; nil while none is wanted.
        public internal(set) var isWorking: Bool?
        /// The reasons why ways of finding peers do not work, sorted.
        public internal(set) var failures: [String] = []
        /// The addresses that were found, sorted.
        public internal(set) var addresses: [MeshAddress] = []
        /// The reasons why no link came of addresses that were found.
        public internal(set) var refusals: [MeshAddress: String] = [:]
    }

    struct Parts: Sendable {
        var databaseID: DatabaseID
        var own: LinkTable.Remote
        var loop: any EventLoop
        var environment: Environment
        var logger: Logger
        /// The socket of the system's bus, for DNS-SD; nil if there is none.
        var bus: String?
        /// The addresses to dial, from now on.
        var choose: @Sendable (Set<MeshAddress>) -> Void
        /// `seen` is another one.
        var changed: @Sendable () -> Void
    }

    private enum Socket {
        case opening
        case open(any Channel, group: SocketAddress)
        case failed
    }

    private final class State {
        var chooser: LinkChooser
        var settings = Settings()
        var syncGroup: UInt32 = 0
        var ports: [MeshListener: Int] = [:]
        var listeningPort: Int?
        var free = Limits.incomingLinks
        var links = LinkChooser.Links()
        var marks: [String: PeerMark] = [:]
        var sockets: [BeaconPlace: Socket] = [:]
        /// The reasons of places that fail at the moment.
        var failures: [BeaconPlace: String] = [:]
        var socketPort = 0
        /// True once the interfaces were looked at with the present wishes.
        var hasLooked = false
        let services: ServiceFinder
        /// The peers that DNS-SD names now, which are hints until they go.
        var named: [(hint: LinkChooser.Hint, address: MeshAddress)] = []
        var naming: Scheduled<Void>?
        var wake: Scheduled<Void>?
        var beat: Scheduled<Void>?
        var look: Scheduled<Void>?
        var beats = 0
        var toldFailures: Set<String> = []

        init(_ chooser: LinkChooser, _ services: ServiceFinder) {
            self.chooser = chooser
            self.services = services
        }
    }

    private let parts: Parts
    private let ownMark: PeerMark
    private let state: NIOLoopBoundBox<State>
    private let started = ContinuousClock.now
    private let copy = Mutex(Seen())

    init(_ parts: Parts) {
        self.parts = parts
        ownMark = PeerMark(peerKey: parts.own.peerKey)
        let changed = Mutex<@Sendable () -> Void>({})
        let services = ServiceFinder(
            ServiceFinder.Parts(
                loop: parts.loop, path: parts.bus, random: parts.environment.random,
                changed: { changed.withLock { $0 }() }))
        state = .makeBoxSendingValue(
            State(LinkChooser(own: ownMark, boot: parts.own.boot.nonce), services), eventLoop: parts.loop)
        changed.withLock { $0 = { [weak self] in self?.servicesChanged() } }
    }

    /// The present state.
    public var seen: Seen { copy.withLock { $0 } }

    /// Takes other settings, at once.
    func configure(_ settings: Settings, syncGroup: UInt32) {
        onLoop { discovery, state in
            guard settings != state.settings || syncGroup != state.syncGroup else { return }
            state.settings = settings
            state.syncGroup = syncGroup
            discovery.settle(state)
        }
    }

    /// Finds nobody any more, and closes everything.
    func stop() async {
        configure(Settings(), syncGroup: 0)
        try? await parts.loop.submit {}.get()
    }

    /// The links are others.
    func linksChanged(_ seen: Mesh.Seen) {
        onLoop { discovery, state in discovery.take(seen, state) }
    }

    /// Takes the connections between peers that are known, by the keys of both ends.
    func graphChanged(_ connections: [(String, String)]) {
        onLoop { discovery, state in
            var graph: [PeerMark: Set<PeerMark>] = [:]
            for (one, other) in connections {
                let (a, b) = (PeerMark(peerKey: one), PeerMark(peerKey: other))
                graph[a, default: []].insert(b)
                graph[b, default: []].insert(a)
            }
            guard graph != state.chooser.graph else { return }
            discovery.receive(.graph(graph), state)
        }
    }

    // MARK: The chooser

    private func onLoop(_ body: @escaping @Sendable (Discovery, State) -> Void) {
        parts.loop.execute { body(self, self.state.value) }
    }

    private var now: Duration { ContinuousClock.now - started }

    private func receive(_ event: LinkChooser.Event, _ state: State) {
        for action in state.chooser.receive(event, at: now, random: parts.environment.random()) {
            switch action {
            case .choose(let addresses): parts.choose(addresses)
            case .warn(let text): parts.logger.warning("\(text)")
            }
        }
        state.wake?.cancel()
        state.wake = state.chooser.wakesAt(after: now).map { time in
            let wait = max(time - now, .milliseconds(1))
            return parts.loop.scheduleTask(in: .nanoseconds(wait.nanoseconds)) { [weak self] in
                guard let self else { return }
                receive(.elapsed, self.state.value)
            }
        }
        publish(state)
    }

    private func settle(_ state: State) {
        let settings = state.settings
        var wishes = LinkChooser.Settings()
        wishes.tag = Beacon.tag(of: parts.databaseID, syncGroup: state.syncGroup)
        if settings.usesMulticast { wishes.hears.insert(.beacon) }
        if settings.looksForServices { wishes.hears.insert(.service) }
        wishes.candidates = settings.candidates
        wishes.outgoing = settings.outgoing
        wishes.beaconLife = settings.interval * Limits.beaconLives
        wishes.churnInterval = settings.churnInterval
        wishes.leastAge = settings.churnAge
        wishes.cooldown = settings.cooldown
        wishes.blockTime = settings.blockTime
        state.listeningPort = settings.listener.flatMap { state.ports[$0] }
        state.hasLooked = false
        receive(.set(wishes), state)
        lookAtInterfaces(state)
        startBeating(state)
        announce(state)
        servicesChanged()
    }

    private func take(_ seen: Mesh.Seen, _ state: State) {
        var links = LinkChooser.Links()
        for peer in seen.peers {
            let mark = state.marks[peer.peerKey] ?? PeerMark(peerKey: peer.peerKey)
            state.marks[peer.peerKey] = mark
            links.linked.insert(mark)
        }
        if state.marks.count > Limits.knownPeers { state.marks = [:] }
        links.dials = seen.attempts
        let incoming = seen.peers.filter { !$0.isDialer }.count
        state.free = max(Limits.incomingLinks - incoming, 0)
        state.ports = seen.ports
        let port = state.settings.listener.flatMap { state.ports[$0] }
        if port != state.listeningPort {
            state.listeningPort = port
            startBeating(state)
            announce(state)
        }
        guard links != state.links else { return }
        state.links = links
        receive(.links(links), state)
    }

    private func publish(_ state: State) {
        let settings = state.settings
        var seen = Seen()
        seen.hasHeard = state.chooser.hasHeard
        let multicast = settings.usesMulticast ? multicastFailure(state) : nil
        let services = settings.usesServices ? serviceFailure(state) : nil
        seen.failures = [services, multicast].compactMap { $0 }
        if settings.usesMulticast || settings.usesServices {
            seen.isWorking =
                settings.usesMulticast && multicast == nil || settings.usesServices && services == nil
        }
        seen.addresses = state.chooser.spots.keys.sorted()
        seen.refusals = state.chooser.spots.compactMapValues(\.reason)
        for failure in seen.failures where state.toldFailures.insert(failure).inserted {
            // One way is enough.
            let level: Logger.Level = seen.isWorking == true ? .debug : .info
            parts.logger.log(
                level: level, "peers on this network may not be found", metadata: ["reason": "\(failure)"])
        }
        let isNew = copy.withLock { copy in
            defer { copy = seen }
            return copy != seen
        }
        if isNew { parts.changed() }
    }

    // MARK: Beacons

    /// The reason why beacons reach nobody else; nil if they may, or nobody has looked yet.
    private func multicastFailure(_ state: State) -> String? {
        guard state.hasLooked else { return nil }
        let places = state.sockets.keys.filter { !$0.isOnThisDevice }
        guard !places.isEmpty else {
            let failing = state.sockets.keys.compactMap { place in
                state.failures[place].map { "\(place.description): \($0)" }
            }
            let rest = failing.min() ?? (state.sockets.isEmpty ? nil : "only peers on this device are found")
            return "multicast: no network interface is up and can multicast\(rest.map { "; \($0)" } ?? "")"
        }
        let failing = places.filter { state.failures[$0] != nil }.sorted { $0.description < $1.description }
        guard failing.count == places.count, let first = failing.first else { return nil }
        return "multicast: \(first.description): \(state.failures[first] ?? "")"
    }

    /// Opens the sockets of interfaces that came, closes those of others, and looks again later.
    private func lookAtInterfaces(_ state: State) {
        state.look?.cancel()
        state.look = nil
        let isWanted = state.settings.usesMulticast
        let places = isWanted ? (try? BeaconPlace.all()) ?? [:] : [:]
        let port = state.settings.multicastPort
        state.hasLooked = isWanted
        for (place, socket) in state.sockets where places[place] == nil || state.socketPort != port {
            if case .open(let channel, _) = socket { channel.close(promise: nil) }
            state.sockets[place] = nil
            state.failures[place] = nil
        }
        state.socketPort = port
        for (place, device) in places {
            switch state.sockets[place] {
            case nil, .failed: open(place, device, port, state)
            case .opening, .open: break
            }
        }
        publish(state)
        guard isWanted else { return }
        state.look = parts.loop.scheduleTask(in: .nanoseconds(Limits.interfaceLook.nanoseconds)) {
            [weak self] in
            guard let self else { return }
            lookAtInterfaces(self.state.value)
        }
    }

    private func open(_ place: BeaconPlace, _ device: NIONetworkDevice, _ port: Int, _ state: State) {
        state.sockets[place] = .opening
        let socket = BeaconSocket.open(place, device, port: port, on: parts.loop) {
            [weak self] bytes, host in
            guard let self else { return }
            heard(bytes, host, place, self.state.value)
        }
        socket.whenComplete { [weak self] result in
            guard let self else { return }
            let state = self.state.value
            guard case .opening? = state.sockets[place], state.socketPort == port else {
                if case .success(let channel) = result { channel.close(promise: nil) }
                return
            }
            switch result {
            case .success(let channel):
                guard let group = channel.localAddress else { return channel.close(promise: nil) }
                state.sockets[place] = .open(channel, group: group)
                channel.closeFuture.whenComplete { _ in self.closed(place, channel) }
                send(state, at: place)
            case .failure(let error):
                state.sockets[place] = .failed
                state.failures[place] = "\("\(error)".prefix(200))"
            }
            publish(state)
        }
    }

    private func closed(_ place: BeaconPlace, _ channel: any Channel) {
        let state = state.value
        if case .open(let current, _)? = state.sockets[place], current === channel {
            state.sockets[place] = .failed
        }
    }

    private func heard(_ bytes: [UInt8], _ host: String, _ place: BeaconPlace, _ state: State) {
        guard let beacon = Beacon(decoding: bytes), beacon.tag == state.chooser.settings.tag,
            !state.chooser.isOwn(beacon.peer, beacon.boot)
        else { return }
        let isLinkLocal = host.lowercased().hasPrefix("fe80:")
        let text = isLinkLocal ? "[\(host)%\(place.name)]" : host.contains(":") ? "[\(host)]" : host
        guard let address = MeshAddress(tcp: "\(text):\(beacon.port)") else { return }
        let hint = LinkChooser.Hint(
            tag: beacon.tag, peer: beacon.peer, boot: beacon.boot, free: beacon.free)
        hear(hint, address, state)
    }

    /// Takes a hint. One that changes nothing costs no more than a look: there may be thousands a second.
    private func hear(_ hint: LinkChooser.Hint, _ address: MeshAddress, _ state: State) {
        guard !state.chooser.isNothingNew(hint, address, now) else { return }
        receive(.heard(hint, address), state)
    }

    private func ownBeacon(_ state: State) -> Beacon? {
        state.listeningPort.map { port in
            Beacon(
                tag: state.chooser.settings.tag, peer: ownMark, boot: parts.own.boot.nonce, port: port,
                free: state.free)
        }
    }

    /// Begins to send beacons: a few at short distances, since the first may be lost, and then regularly.
    private func startBeating(_ state: State) {
        state.beats = 0
        beat(state)
    }

    private func beat(_ state: State) {
        state.beat?.cancel()
        state.beat = nil
        guard state.settings.usesMulticast, state.listeningPort != nil else { return }
        send(state, at: nil)
        let first = Limits.firstBeacons
        let whole =
            state.beats < first.count
            ? min(first[state.beats], state.settings.interval)
            : state.settings.interval
        state.beats += 1
        let part = 0.8 + 0.2 * Double(parts.environment.random() >> 11) / Double(1 << 53)
        let pause = whole * part
        state.beat = parts.loop.scheduleTask(in: .nanoseconds(pause.nanoseconds)) { [weak self] in
            guard let self else { return }
            beat(self.state.value)
        }
    }

    /// Sends a beacon at one place, or at all.
    private func send(_ state: State, at only: BeaconPlace?) {
        guard let beacon = ownBeacon(state) else { return }
        let bytes = ByteBuffer(bytes: beacon.encoded)
        for (place, socket) in state.sockets where only == nil || place == only {
            guard case .open(let channel, let group) = socket else { continue }
            channel.writeAndFlush(AddressedEnvelope(remoteAddress: group, data: bytes)).whenComplete {
                [weak self] result in
                self?.sent(place, result)
            }
        }
    }

    private func sent(_ place: BeaconPlace, _ result: Result<Void, any Error>) {
        let state = state.value
        guard case .open? = state.sockets[place] else { return }
        let before = state.failures[place]
        switch result {
        case .success: state.failures[place] = nil
        case .failure(let error): state.failures[place] = "\("\(error)".prefix(200))"
        }
        if state.failures[place] != before { publish(state) }
    }
}

// MARK: - DNS-SD

extension Discovery {
    private func announce(_ state: State) {
        var wish = AvahiClient.Wish()
        wish.browses = state.settings.looksForServices
        if state.settings.announcesService, let port = state.listeningPort {
            wish.announced = PeerService(
                tag: state.chooser.settings.tag, peer: ownMark, boot: parts.own.boot.nonce, port: port)
        }
        state.services.set(wish)
    }

    /// The reason why DNS-SD finds nobody; nil if it may, or is about to.
    private func serviceFailure(_ state: State) -> String? {
        guard case .fails(let reason)? = state.services.condition else { return nil }
        return "DNS-SD: \(reason)"
    }

    private func servicesChanged() {
        let state = state.value
        state.named = state.services.found.compactMap { found in
            guard found.service.tag == state.chooser.settings.tag,
                !state.chooser.isOwn(found.service.peer, found.service.boot),
                let address = address(of: found)
            else { return nil }
            let hint = LinkChooser.Hint(
                tag: found.service.tag, peer: found.service.peer, boot: found.service.boot, way: .service)
            return (hint, address)
        }
        name(state)
        publish(state)
    }

    /// Repeats the hints as often as beacons come, for as long as the services are there.
    private func name(_ state: State) {
        state.naming?.cancel()
        state.naming = nil
        guard state.settings.looksForServices, !state.named.isEmpty else { return }
        for (hint, address) in state.named { hear(hint, address, state) }
        state.naming = parts.loop.scheduleTask(in: .nanoseconds(state.settings.interval.nanoseconds)) {
            [weak self] in
            guard let self else { return }
            name(self.state.value)
        }
    }

    private func address(of found: AvahiClient.Found) -> MeshAddress? {
        let host = found.host.lowercased()
        var text = host.contains(":") ? "[\(host)]" : host
        if host.hasPrefix("fe80:") {
            let name = BeaconPlace.interfaceName(UInt32(bitPattern: found.interface))
            guard let name else { return nil }
            text = "[\(host)%\(name)]"
        }
        return MeshAddress(tcp: "\(text):\(found.service.port)")
    }
}
