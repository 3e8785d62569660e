import TestSupport

@testable import Transport

/// Peers on networks, without sockets: choosers that hear each other's beacons, dial and link, in steps of
/// half a second. `hears` says who shares a network with whom.
struct LanWorld {
    struct Peer {
        var chooser: LinkChooser
        var boot: UInt64
        var isAlive = true
        var nextBeacon: Duration
        var told = LinkChooser.Links()
        /// The addresses to dial, as the chooser last said, and how often it said so.
        var chosen: Set<MeshAddress> = []
        var choices = 0
        let address: MeshAddress
    }

    /// A link, by the numbers of its ends.
    struct Link: Hashable {
        let dialer: Int
        let listener: Int
    }

    /// Shorter than by default: what matters is the order of things.
    static let churnInterval = Duration.seconds(20)
    private static let step = Duration.milliseconds(500)

    private(set) var peers: [Peer] = []
    private(set) var links: Set<Link> = []
    private(set) var now = Duration.zero
    var hears: (Int, Int) -> Bool = { _, _ in true }
    /// True if the choosers are told who is linked with whom.
    var hasPresence = true
    var random: SplitMix64
    private var numbers: [MeshAddress: Int] = [:]
    private let outgoing: Int
    private var reported: Set<Link> = []

    init(_ count: Int, seed: UInt64, outgoing: Int = Limits.chosenLinks) {
        self.outgoing = outgoing
        random = SplitMix64(seed: seed)
        for number in 0..<count {
            guard let address = MeshAddress(tcp: "10.0.0.\(number):4000") else { continue }
            let start = Duration.milliseconds(Int64(random.next() % 3_000))
            numbers[address] = number
            peers.append(
                Peer(
                    chooser: LinkChooser(own: PeerMark(random.next()), boot: 1), boot: 1, nextBeacon: start,
                    address: address))
            configure(number)
        }
    }

    private mutating func configure(_ number: Int) {
        var settings = LinkChooser.Settings()
        settings.tag = 7
        settings.hears = [.beacon]
        settings.outgoing = outgoing
        settings.churnInterval = Self.churnInterval
        settings.leastAge = Self.churnInterval / 2
        tell(number, .set(settings))
    }

    private mutating func tell(_ number: Int, _ event: LinkChooser.Event) {
        for action in peers[number].chooser.receive(event, at: now, random: random.next()) {
            guard case .choose(let addresses) = action else { continue }
            peers[number].chosen = addresses
            peers[number].choices += 1
        }
    }

    mutating func stop(_ number: Int) {
        peers[number].isAlive = false
        links = links.filter { $0.dialer != number && $0.listener != number }
    }

    /// Starts a peer again: another boot, and nothing known.
    mutating func start(_ number: Int) {
        peers[number].isAlive = true
        peers[number].boot += 1
        peers[number].chooser = LinkChooser(own: peers[number].chooser.own, boot: peers[number].boot)
        peers[number].chosen = []
        peers[number].told = LinkChooser.Links()
        peers[number].nextBeacon = now
        configure(number)
    }

    mutating func run(_ time: Duration) {
        let end = now + time
        while now < end {
            now += Self.step
            beacon()
            dial()
            report()
            for number in peers.indices where peers[number].isAlive {
                let isDue = peers[number].chooser.wakesAt(after: now).map { $0 <= now + Self.step }
                if isDue == true { tell(number, .elapsed) }
            }
        }
    }

    /// The time until `isReached`, in steps of a second; nil if it is not within `limit`.
    mutating func time(until isReached: (LanWorld) -> Bool, within limit: Duration) -> Duration? {
        let start = now
        while now - start <= limit {
            if isReached(self) { return now - start }
            run(.seconds(1))
        }
        return nil
    }

    private mutating func beacon() {
        for number in peers.indices where peers[number].isAlive && peers[number].nextBeacon <= now {
            peers[number].nextBeacon = now + .milliseconds(2_400 + Int64(random.next() % 600))
            let free = Limits.incomingLinks - links.filter { $0.listener == number }.count
            let hint = LinkChooser.Hint(
                tag: 7, peer: peers[number].chooser.own, boot: peers[number].boot, free: free)
            for other in peers.indices where other != number && peers[other].isAlive && hears(number, other) {
                tell(other, .heard(hint, peers[number].address))
            }
        }
    }

    private func listener(of address: MeshAddress) -> Int? { numbers[address] }

    private func isSettled(_ number: Int) -> Bool {
        peers[number].chosen.allSatisfy { address in
            listener(of: address).map { links.contains(Link(dialer: number, listener: $0)) } ?? false
        }
    }

    private mutating func dial() {
        links = links.filter { link in
            hears(link.dialer, link.listener)
                && peers[link.dialer].chosen.contains(peers[link.listener].address)
        }
        for number in peers.indices where peers[number].isAlive {
            for address in peers[number].chosen.sorted() {
                guard let other = listener(of: address), peers[other].isAlive, hears(number, other),
                    !links.contains(Link(dialer: other, listener: number)),
                    links.filter({ $0.listener == other }).count < Limits.incomingLinks
                else { continue }
                links.insert(Link(dialer: number, listener: other))
            }
        }
    }

    private mutating func report() {
        let isOther = links != reported
        reported = links
        let graph = hasPresence && isOther ? wholeGraph() : nil
        for number in peers.indices where peers[number].isAlive {
            guard isOther || !isSettled(number) else { continue }
            var seen = LinkChooser.Links()
            for link in links where link.dialer == number || link.listener == number {
                let other = link.dialer == number ? link.listener : link.dialer
                seen.linked.insert(peers[other].chooser.own)
            }
            for address in peers[number].chosen {
                guard let other = listener(of: address) else { continue }
                var dial = LinkChooser.Links.Dial()
                if links.contains(Link(dialer: number, listener: other)) {
                    dial.state = .open
                    dial.peer = peers[other].chooser.own
                } else {
                    let isDouble = links.contains(Link(dialer: other, listener: number))
                    dial.state = isDouble ? .double : .failed(isFinal: false)
                }
                seen.dials[address] = dial
            }
            if let graph {
                let own = peers[number].chooser.own
                let reached = component(of: own, graph)
                tell(number, .graph(graph.filter { reached.contains($0.key) }))
            }
            guard seen != peers[number].told else { continue }
            peers[number].told = seen
            tell(number, .links(seen))
        }
    }

    private func wholeGraph() -> [PeerMark: Set<PeerMark>] {
        var graph: [PeerMark: Set<PeerMark>] = [:]
        for link in links {
            let (one, other) = (peers[link.dialer].chooser.own, peers[link.listener].chooser.own)
            graph[one, default: []].insert(other)
            graph[other, default: []].insert(one)
        }
        return graph
    }

    private func component(of peer: PeerMark, _ graph: [PeerMark: Set<PeerMark>]) -> Set<PeerMark> {
        var found: Set<PeerMark> = []
        var edge: Set<PeerMark> = [peer]
        while let next = edge.popFirst() {
            found.insert(next)
            edge.formUnion((graph[next] ?? []).subtracting(found))
        }
        return found
    }

    /// True if links lead from each living peer to each other one.
    var isOneGraph: Bool {
        let living = peers.filter(\.isAlive).map(\.chooser.own)
        guard let first = living.first else { return true }
        return component(of: first, wholeGraph()).isSuperset(of: living)
    }

    /// The links that a peer has dialed, and those that it has accepted.
    func counts(_ number: Int) -> (outgoing: Int, incoming: Int) {
        (links.filter { $0.dialer == number }.count, links.filter { $0.listener == number }.count)
    }
}
