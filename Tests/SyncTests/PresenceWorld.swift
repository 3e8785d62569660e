import CRDT
import TestSupport

@testable import Sync

/// Peers that gossip about their presence, in a test: real machines, links with delays and losses, and time
/// that passes as fast as it can be computed.
final class PresenceWorld {
    private struct Node {
        var gossip: PresenceGossip
        var wakesAt: Duration?
        /// Its links: the number here, the other peer and the number there.
        var ends: [UInt64: (peer: Int, number: UInt64)] = [:]
        var starts: UInt64
    }

    private struct Flight {
        var at: Duration
        var to: Int
        var link: UInt64
        var news: PresenceNews
    }

    private var nodes: [Int: Node] = [:]
    private var flights: [Flight] = []
    private var random: SplitMix64
    private var lastLink: UInt64 = 0
    private(set) var now = Duration.zero
    private(set) var messages = 0
    private(set) var warnings: [String] = []
    /// One frame of so many is lost; 0 for none.
    var lossEach: UInt64 = 0
    /// Pairs of a sender and a receiver between whom every frame is lost, although their link is open.
    private var silent: [(from: Int, to: Int)] = []
    var settings = PresenceGossip.Settings()

    init(_ count: Int, seed: UInt64) {
        random = SplitMix64(seed: seed)
        for place in 0..<count { start(place) }
    }

    // MARK: Keys

    static func key(_ place: Int) -> String { "pk\(place < 10 ? "0" : "")\(place)" }

    private static func signature(_ content: [UInt8], _ key: String) -> [UInt8] {
        let hash = hash64(content + Array(key.utf8))
        return (0..<64).map { UInt8(truncatingIfNeeded: hash >> UInt64($0 % 8 * 8)) }
    }

    /// Keys whose signatures cost nothing.
    static func trust(_ key: String) -> PresenceGossip.Trust {
        PresenceGossip.Trust(
            sign: { signature($0, key) }, isValid: { $0.signature == signature($0.content, $1) },
            name: { hash64(Array($0.utf8)) },
            hash: { der in (0..<4).flatMap { _ in withUnsafeBytes(of: hash64(der)) { Array($0) } } },
            metadata: { der, owner in
                String(decoding: der, as: UTF8.self) == "of \(owner)" ? #"{"by":"authority"}"# : nil
            })
    }

    // MARK: Peers and links

    private func start(_ place: Int, starts: UInt64 = 1) {
        let key = Self.key(place)
        nodes[place] = Node(
            gossip: PresenceGossip(peerKey: key, start: random.next(), trust: Self.trust(key)), starts: starts
        )
        tell(place, .settings(settings))
        tell(place, .began(starts: starts, start: random.next()))
        name(place, "device \(place)")
    }

    func name(_ place: Int, _ name: String, isConnected: Bool = false) {
        var facts = PresenceRecord.Facts()
        facts.deviceName = name
        facts.isConnectedToServer = isConnected
        tell(place, .facts(facts, certificate: Array("of \(Self.key(place))".utf8)))
    }

    func set(_ new: PresenceGossip.Settings) {
        settings = new
        for place in nodes.keys { tell(place, .settings(new)) }
    }

    func link(_ one: Int, _ other: Int) {
        guard !isLinked(one, other), var first = nodes[one], var second = nodes[other] else { return }
        let (here, there) = (lastLink + 1, lastLink + 2)
        lastLink += 2
        first.ends[here] = (other, there)
        second.ends[there] = (one, here)
        let (mine, theirs) = (first.gossip.greeting(at: now), second.gossip.greeting(at: now))
        (nodes[one], nodes[other]) = (first, second)
        let kind = PresenceRecord.Kind.network
        tell(one, .linked(here, PresenceGossip.Neighbour(peerKey: Self.key(other), kind: kind), theirs))
        tell(other, .linked(there, PresenceGossip.Neighbour(peerKey: Self.key(one), kind: kind), mine))
    }

    func isLinked(_ one: Int, _ other: Int) -> Bool {
        nodes[one]?.ends.values.contains { $0.peer == other } ?? false
    }

    /// Cuts a link; the second peer hears of it `later`.
    func cut(_ one: Int, _ other: Int, later: Duration = .zero) {
        guard let end = nodes[one]?.ends.first(where: { $0.value.peer == other }) else { return }
        nodes[one]?.ends[end.key] = nil
        nodes[other]?.ends[end.value.number] = nil
        flights.removeAll { $0.link == end.key || $0.link == end.value.number }
        tell(one, .unlinked(end.key))
        if later > .zero { run(for: later) }
        tell(other, .unlinked(end.value.number))
    }

    /// From now on nothing that one peer says over their link reaches the other.
    func silence(from one: Int, to other: Int) { silent.append((one, other)) }

    /// Ends a peer without a word; its neighbours hear of it at once.
    func kill(_ place: Int) {
        let ends = nodes[place]?.ends ?? [:]
        let starts = nodes[place]?.starts ?? 0
        killed[place] = starts
        nodes[place] = nil
        for end in ends.values {
            nodes[end.peer]?.ends[end.number] = nil
            tell(end.peer, .unlinked(end.number))
        }
        flights.removeAll { flight in flight.to == place || ends.values.contains { $0.number == flight.link }
        }
    }

    private var killed: [Int: UInt64] = [:]

    /// Starts a killed peer; `putBack` to an earlier state, which counts no more starts.
    func restart(_ place: Int, putBack: Bool = false) {
        start(place, starts: (killed[place] ?? 0) + (putBack ? 0 : 1))
    }

    func leave(_ place: Int) {
        tell(place, .leaving)
        run(for: .milliseconds(100))
        kill(place)
    }

    // MARK: Time

    func run(for time: Duration) {
        let end = now + time
        while true {
            let never = Duration.seconds(1 << 40)
            let wake = nodes.min { ($0.value.wakesAt ?? never) < ($1.value.wakesAt ?? never) }
            let wakesAt = max(wake?.value.wakesAt ?? never, now)
            if let flight = flights.first, flight.at <= wakesAt, flight.at <= end {
                flights.removeFirst()
                now = max(now, flight.at)
                tell(flight.to, .received(flight.link, flight.news))
            } else if let wake, wakesAt <= end {
                now = wakesAt
                tell(wake.key, .elapsed)
            } else {
                return now = end
            }
        }
    }

    /// Hands an event to a peer, and performs what it says.
    func tell(_ place: Int, _ event: PresenceGossip.Event) {
        guard var node = nodes[place] else { return }
        var actions = node.gossip.receive(event, at: now)
        while !actions.isEmpty {
            let action = actions.removeFirst()
            switch action {
            case .offer(let link): actions += node.gossip.receive(.ready(link), at: now)
            case .send(let link, let news):
                guard let end = node.ends[link] else { continue }
                messages += 1
                if lossEach > 0, random.next() % lossEach == 0 { continue }
                if silent.contains(where: { $0 == (place, end.peer) }) { continue }
                let at = now + .milliseconds(Int64(1 + random.next() % 40))
                let place = flights.firstIndex { $0.at > at } ?? flights.count
                flights.insert(Flight(at: at, to: end.peer, link: end.number, news: news), at: place)
            case .warn(let text): warnings.append(text)
            case .changed: break
            }
        }
        node.wakesAt = node.gossip.wakesAt
        nodes[place] = node
    }

    // MARK: What they know

    var alive: [Int] { nodes.keys.sorted() }
    func graph(_ place: Int) -> PresenceGraph? { nodes[place]?.gossip.graph }

    /// The peers that connections lead to from one, and their connections: the truth.
    private func truth(_ place: Int) -> (peers: Set<Int>, connections: Set<PresenceGraph.Connection>) {
        var peers: Set<Int> = [place]
        var edge = [place]
        while let next = edge.popLast() {
            for end in nodes[next]?.ends.values ?? [:].values where peers.insert(end.peer).inserted {
                edge.append(end.peer)
            }
        }
        var connections: Set<PresenceGraph.Connection> = []
        for peer in peers {
            for end in nodes[peer]?.ends.values ?? [:].values {
                connections.insert(PresenceGraph.Connection(Self.key(peer), Self.key(end.peer), .network))
            }
        }
        return (peers, connections)
    }

    /// The first difference between a graph and the truth; nil if all graphs are right.
    var difference: String? {
        for place in alive {
            guard let graph = graph(place) else { continue }
            let (peers, connections) = truth(place)
            let known = Set(graph.peers.map(\.peerKey)).union([Self.key(place)])
            let wanted = Set(peers.map(Self.key))
            if known != wanted {
                return "at \(now): \(place) lacks \(wanted.subtracting(known).sorted()), and has"
                    + " \(known.subtracting(wanted).sorted()) that are not there"
            }
            if Set(graph.connections) != connections { return "at \(now): \(place) has other connections" }
            for peer in graph.peers {
                let other = peers.first { Self.key($0) == peer.peerKey }.flatMap { nodes[$0]?.gossip.facts }
                guard peer.record?.facts == other else {
                    return "at \(now): \(place) has old facts of \(peer.peerKey)"
                }
            }
        }
        return nil
    }

    /// Time that passes until all graphs are right; nil if that takes longer than `limit`.
    func settle(within limit: Duration) -> Duration? {
        let begun = now
        while difference != nil {
            guard now - begun < limit else { return nil }
            run(for: .milliseconds(100))
        }
        return now - begun
    }
}
