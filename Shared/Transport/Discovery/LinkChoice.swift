/// The choice among spots.
extension LinkChooser {
    /// The order of preference: the ring before anybody else. With its successors linked everywhere, all
    /// peers that see each other are one ring, whatever else they have; random links shorten the ways.
    private static let successors = 2

    /// Peers that can be dialed now, with their addresses.
    private func usable(_ now: Duration) -> [PeerMark: [MeshAddress]] {
        var found: [PeerMark: [MeshAddress]] = [:]
        for (address, spot) in spots {
            guard let peer = spot.peer, isUsable(spot, now) else { continue }
            found[peer, default: []].append(address)
        }
        return found
    }

    private func isUsable(_ spot: Spot, _ now: Duration) -> Bool {
        spot.isNamed(at: now) && spot.free > 0 && spot.restsUntil <= now
    }

    private var targetPeers: Set<PeerMark> { Set(targets.values.compactMap(\.peer)) }

    /// The two peers behind this one in the circle, of those that can be dialed or are linked.
    private func successors(_ usable: [PeerMark: [MeshAddress]]) -> [PeerMark] {
        let known = Set(usable.keys).union(links.linked).union(targetPeers).subtracting([own])
        return Array(known.sorted { own.distance(to: $0) < own.distance(to: $1) }.prefix(Self.successors))
    }

    /// Takes targets as long as there is room.
    mutating func fill(_ now: Duration) {
        guard targets.count < settings.outgoing else { return }
        let usable = usable(now)
        let taken = targetPeers.union(links.linked)
        var waiting = successors(usable).filter { !taken.contains($0) }.compactMap { usable[$0] }
        // Without a claimed peer an address stands for somebody unknown.
        var others = usable.filter { !taken.contains($0.key) && !waiting.contains($0.value) }
            .sorted { $0.key < $1.key }.map(\.value)
        others += spots.filter { $0.value.peer == nil && isUsable($0.value, now) && targets[$0.key] == nil }
            .keys.sorted().map { [$0] }
        while targets.count < settings.outgoing {
            if waiting.isEmpty, !others.isEmpty {
                waiting.append(others.remove(at: dice.below(others.count)))
            }
            guard !waiting.isEmpty, newTargets.take(at: now) else { return }
            choose(among: waiting.removeFirst())
        }
    }

    /// Takes one of the addresses of a peer: one that has failed least.
    private mutating func choose(among addresses: [MeshAddress]) {
        let least = addresses.compactMap { spots[$0]?.failures }.min() ?? 0
        let best = addresses.filter { spots[$0]?.failures == least }.sorted()
        guard !best.isEmpty else { return }
        let address = best[dice.below(best.count)]
        choices += 1
        targets[address] = Target(peer: spots[address]?.peer, openSince: nil, number: choices)
    }

    // MARK: Churn

    /// Gives a place to a peer that is better linked, if all places are taken: first to a successor, which
    /// the ring needs; then to a peer that the graph does not reach. A place is taken from the newest link
    /// that is old enough and that the graph, or the ring, can do without. Without such a cause nothing
    /// changes, because each new link costs a comparison of everything.
    mutating func churn(_ now: Duration) {
        guard targets.count >= settings.outgoing, settings.outgoing > 0 else { return }
        let usable = usable(now)
        let successors = successors(usable)
        let taken = targetPeers.union(links.linked)
        let old = targets.filter { _, target in
            guard let since = target.openSince, let peer = target.peer else { return false }
            return now - since >= settings.leastAge && !successors.contains(peer)
        }.sorted { $0.value.number > $1.value.number }
        if let missing = successors.first(where: { !taken.contains($0) }), let addresses = usable[missing] {
            if let victim = old.first { replace(victim.key, by: addresses, now) }
            return
        }
        let near = reached(without: nil)
        let strangers = usable.filter { !near.contains($0.key) && !taken.contains($0.key) }
        guard !strangers.isEmpty else { return }
        let victim = old.first { _, target in
            target.peer.map { reached(without: $0).contains($0) } ?? false
        }
        guard let victim else { return }
        let names = strangers.keys.sorted()
        replace(victim.key, by: strangers[names[dice.below(names.count)]] ?? [], now)
    }

    private mutating func replace(_ address: MeshAddress, by others: [MeshAddress], _ now: Duration) {
        targets[address] = nil
        spots[address]?.restsUntil = now + settings.churnInterval
        choose(among: others)
    }

    /// The peers that links lead to from here; `without`: as if the own link with that peer were not there.
    func reached(without: PeerMark?) -> Set<PeerMark> {
        var reached: Set<PeerMark> = [own]
        var edge = links.linked.subtracting(without.map { [$0] } ?? [])
        while let next = edge.popFirst() {
            guard reached.insert(next).inserted else { continue }
            for peer in graph[next] ?? [] where !reached.contains(peer) {
                edge.insert(peer)
            }
        }
        return reached
    }
}

/// A number of things a second.
struct Allowance: Sendable {
    let most: Int
    private var used = 0
    private var second: Int64 = -1

    init(most: Int) { self.most = most }

    /// Returns false if there were enough in this second.
    mutating func take(at now: Duration) -> Bool {
        guard hasAny(at: now) else { return false }
        used = second == now.components.seconds ? used + 1 : 1
        second = now.components.seconds
        return true
    }

    func hasAny(at now: Duration) -> Bool { second != now.components.seconds || used < most }
}

/// Random numbers from the bits that events bring (SplitMix64).
struct SeededRandom: Sendable {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `count`, which it does not reach.
    mutating func below(_ count: Int) -> Int { Int(next() % UInt64(max(count, 1))) }

    /// Between four fifths of a pause and the whole.
    mutating func jittered(_ pause: Duration) -> Duration {
        pause * (0.8 + 0.2 * Double(next() >> 11) / Double(1 << 53))
    }
}
