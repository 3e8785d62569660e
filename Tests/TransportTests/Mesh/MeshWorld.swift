import DQL
import Foundation
import TestSupport

@testable import CRDT
@testable import Replica
@testable import Transport

/// Small peers, their links and their misfortunes, from a seed: real stores on disk and real sessions, whose
/// events and frames are handled in an order that the seed chooses. A seed is one history.
///
/// Two to five peers in a chain, a ring, a star or a clique. Each writes three documents, whose colour says
/// which subscriptions they belong to; a fourth one only those that reach the server. Where subscriptions
/// differ, all are linked with all: then what each holds must still be the join of what all hold. Two worlds
/// of five have a counter in each document. Two worlds of three have a server, which one peer reaches, or all
/// of a clique; it reaps deletions. In some of those a peer that reaches it may not write one of the
/// documents: its writes are refused there, after they went round. Clocks may run apart by 40 s; in some
/// worlds one is still in 1970, or ten years ahead. In some a peer is put back again and again, or the server
/// reaps at once (in *reaping* worlds, which have a server, in one of five steps); in some a peer is lost for
/// good, maybe just after the server has refused what it wrote. In calm ones nothing is evicted, put back or
/// lost. Links are cut within frames.
final class MeshWorld {
    struct Fault: Error, CustomStringConvertible {
        let seed: UInt64
        let what: String
        var description: String { "seed \(seed): \(what)" }
    }

    enum Shape: CaseIterable { case chain, ring, star, clique }

    /// The id of the document that only peers write that reach the server.
    private static let own = 3

    let seed: UInt64
    private var random: SplitMix64
    let clock = MeshClock()
    let peers: [MeshPeer]
    let pairs: [(Int, Int)]
    private var links: [Int: MeshLinkRun] = [:]
    private let areAlike: Bool
    let server: MeshServer?
    /// The peers that reach the server.
    let reach: [Int]
    private var sessions: [Int: MeshServerRun] = [:]
    let keys: [DocumentKey]
    /// The peer that may not write the first document, maybe only from a step on; nil in most worlds.
    let refused: Int?
    private let refusedFrom: Int
    private var passed = 0
    /// True if documents from the future wait at some (decision 0102): not all come to hold those.
    let waits: Bool
    /// A peer that is put back again and again, and writes on; nil in most worlds.
    private let fragile: Int?
    /// The chance of a step, in percent, that the server reaps a deletion as soon as it has it, before others
    /// have heard of it.
    private let reapingChance: Int
    /// The time that passes before such a reaping: in a reaping world no deletion is too young for it, except
    /// those of a clock that is years ahead.
    private let reapingPause: UInt64
    /// True if nothing is evicted or put back, so that all that was ever written is there at rest.
    let isCalm: Bool
    /// The peer that is lost for good at a step of the history; nil in most worlds.
    private let doomed: (place: Int, step: Int)?
    private(set) var lost: Int?
    /// Draws beside the history, so that kept seeds are what they were.
    private var beside: SplitMix64
    private var end: SplitMix64
    private var right: SplitMix64
    private var counts: SplitMix64
    /// True if some writes are of a counter.
    private let hasCounters: Bool
    private(set) var hasReaped = false
    private(set) var wasPutBack = false
    /// What has happened, for a failure's message.
    private(set) var history: [String] = []

    /// `reaps`: whether it is a reaping world. (Seeds that were kept before there were such are none.)
    init(seed: UInt64, in folder: URL, reaps: Bool = false) async throws {
        self.seed = seed
        var random = SplitMix64(seed: seed)
        let count = 2 + random.below(4)
        let shape = random.pick(Shape.allCases)
        let areAlike = shape != .clique || random.chance(30)
        self.areAlike = areAlike
        keys = try (0..<4).map { DocumentKey(collection: "c", id: try DocumentID(.int(Int64($0)))) }
        pairs =
            switch shape {
            case .chain: (1..<count).map { ($0 - 1, $0) }
            case .ring: count > 2 ? (0..<count).map { ($0, ($0 + 1) % count) } : [(0, 1)]
            case .star: (1..<count).map { (0, $0) }
            case .clique: (0..<count).flatMap { first in (0..<first).map { (first, $0) } }
            }
        let clock = clock
        let hasServer = random.chance(66) || reaps
        server = hasServer ? try await MeshServer(in: folder, clock) : nil
        let isReachedByOne = shape != .clique || areAlike && random.chance(50)
        reach = hasServer ? Array(0..<(isReachedByOne ? 1 : count)) : []
        // Drawn apart, so that kept seeds are what they were.
        var extra = SplitMix64(seed: seed ^ 0x5EED)
        refused = hasServer && extra.chance(40) ? reach.randomOne(&extra) : nil
        var right = SplitMix64(seed: seed ^ 0x716)
        refusedFrom = right.chance(50) ? 0 : 10 + right.below(25)
        self.right = right
        // (No kept seed has counters: they began before.)
        var counts = SplitMix64(seed: seed ^ 0xC02A)
        hasCounters = counts.chance(40)
        self.counts = counts
        var skews: [Int64] = (0..<count).map { _ in extra.chance(50) ? 0 : extra.pick([3_000, 40_000]) }
        var wrong = SplitMix64(seed: seed ^ 0xC10C)
        var isAhead = false
        if wrong.chance(25) {
            let skew = wrong.pick([-Int64(clock.now), 315_360_000_000])
            skews[wrong.below(count)] = skew
            isAhead = skew > 0
        }
        waits = isAhead && hasServer
        var beside = SplitMix64(seed: seed ^ 0xF7A6)
        var calm = SplitMix64(seed: seed ^ 0xCA17)
        isCalm = calm.chance(30)
        let isFragile = beside.chance(25)
        fragile = isFragile && !isCalm ? beside.below(count) : nil
        let reapsAtOnce = hasServer && beside.chance(30)
        reapingChance = reaps ? 20 : reapsAtOnce ? 6 : 0
        reapingPause = reaps ? 45_000 : 0
        self.beside = beside
        var end = SplitMix64(seed: seed ^ 0x1057)
        let isDoomed = !isCalm && end.chance(30)
        let spared = Self.unneeded(count, pairs)
        var place = spared.randomOne(&end)
        if let refused, spared.contains(refused), end.chance(70) { place = refused }
        doomed = isDoomed ? place.map { ($0, 15 + end.below(30)) } : nil
        self.end = end
        let offsets = skews
        peers = try (0..<count).map { place in
            try MeshPeer(
                "p\(place)", in: folder, seed: random.next(), hasServer: hasServer,
                milliseconds: { UInt64(Int64(clock.now) + offsets[place]) })
        }
        self.random = random
        history = offsets.enumerated().filter { $0.1 != 0 }.map { "p\($0.0)'s clock is off by \($0.1) ms" }
        for peer in peers { try peer.subscribe(drawStatement()) }
    }

    /// The peers without which all others are still joined.
    private static func unneeded(_ count: Int, _ pairs: [(Int, Int)]) -> [Int] {
        guard count > 2 else { return [] }
        return (0..<count).filter { gone in
            let left = pairs.filter { $0.0 != gone && $0.1 != gone }
            var reached: Set<Int> = [gone == 0 ? 1 : 0]
            for _ in 0..<count {
                for pair in left where reached.contains(pair.0) || reached.contains(pair.1) {
                    reached.formUnion([pair.0, pair.1])
                }
            }
            return reached.count == count - 1
        }
    }

    private func drawStatement() -> String {
        guard !areAlike else { return "SELECT * FROM c" }
        let colours = (0..<3).filter { _ in random.chance(50) }
        let drawn = colours.isEmpty ? [random.below(3)] : colours
        return "SELECT * FROM c WHERE \(drawn.map { "colour = \($0)" }.joined(separator: " OR "))"
    }

    func close() async throws {
        for session in sessions.values { await session.cut() }
        for peer in peers { try peer.close() }
        await server?.close()
    }

    /// The whole history: chaos, then all links until nothing moves.
    func run(steps: Int) async throws {
        for step in 0..<steps {
            passed = step
            if step == refusedFrom, let refused { await loseServer(peers[refused]) }
            if step == doomed?.step { try await lose() }
            clock.pass(UInt64(random.below(20)))
            try await self.step()
            try await breakFragile()
            try await deleteAndReap()
            try await writeAndBeRefused()
            try await checkVectors()
        }
        try await settle()
        try await checkVectors()
        try await checkEnd()
    }

    // MARK: Chaos

    private func step() async throws {
        let peer = random.pick(left)
        switch random.below(100) {
        case 0..<34: try write(peer)
        case 34..<70: try await pump()
        case 70..<80: try connect(random.below(pairs.count))
        case 80..<84: try await cut(random.below(pairs.count))
        case 84..<88: if !isCalm { try evict(peer) }
        case 88..<90: try await subscribe(peer)
        case 90..<94: try await meetServer()
        case 94..<97: try await reap()
        default: try await restart(peer)
        }
    }

    // MARK: The server

    private func meetServer() async throws {
        guard let place = inReach.randomOne(&random) else { return }
        if let session = sessions[place], !session.isOver {
            guard random.chance(30) else { return }
            history.append("\(peers[place].name) loses the server")
            return await session.cut()
        }
        try await beginSession(place)
    }

    private func beginSession(_ place: Int) async throws {
        guard let server else { return }
        if let reason = sessions[place]?.reasons.lazy.compactMap({ $0 }).first {
            history.append("the server's session with \(peers[place].name) ended: \(reason)")
        }
        history.append("\(peers[place].name) meets the server")
        let isRefused = place == refused && passed >= refusedFrom
        let grant = isRefused ? MeshServer.grant(withoutWriting: [0], of: keys.indices) : .everything
        sessions[place] = try await MeshServerRun(peers[place], server, grant: grant, at: clock.now)
    }

    private func reap() async throws {
        guard let server else { return }
        var before: [DocumentKey: VersionVector] = [:]
        for key in keys { before[key] = try await server.vector(of: key) }
        let count = try await server.reap()
        guard count > 0 else { return }
        hasReaped = true
        history.append("the server reaps \(count)")
        for (key, vector) in before where !vector.isEmpty {
            guard try await server.vector(of: key).isEmpty, try !server.hasFolded(vector) else { continue }
            throw fault("the server reaps \(key.id) and lacks operations of it")
        }
    }

    private func write(_ peer: MeshPeer) throws {
        let (id, colour) = (random.below(3), random.below(3))
        var statement =
            switch random.below(10) {
            case 0..<4:
                "INSERT INTO c DOCUMENTS ({'_id': \(id), 'colour': \(colour)}) ON ID CONFLICT DO UPDATE"
            case 4..<6: "UPDATE c SET x = \(random.below(3)) WHERE _id = \(id)"
            case 6..<8: "UPDATE c SET y = \(random.below(3)), colour = \(colour) WHERE _id = \(id)"
            default: "DELETE FROM c WHERE _id = \(id)"
            }
        if hasCounters, counts.chance(40) {
            let change = counts.pick([
                "APPLY n INCREMENT BY 1", "APPLY n INCREMENT BY 2", "APPLY n INCREMENT BY -3", "UNSET n",
                "APPLY n RESTART WITH 10",
            ])
            statement = "UPDATE c \(change) WHERE _id = \(id)"
        }
        history.append("\(peer.name) \(statement)")
        try peer.execute(statement)
    }

    private func connect(_ pair: Int) throws {
        guard !isGone(pair), links[pair]?.isOver ?? true else { return }
        try checkReason(of: links[pair])
        let (first, second) = (peers[pairs[pair].0], peers[pairs[pair].1])
        history.append("\(first.name) meets \(second.name)")
        links[pair] = random.chance(50) ? MeshLinkRun(first, second) : MeshLinkRun(second, first)
    }

    private func cut(_ pair: Int) async throws {
        guard let link = links.removeValue(forKey: pair) else { return }
        history.append("\(peers[pairs[pair].0].name) loses \(peers[pairs[pair].1].name)")
        try checkReason(of: link)
        var bytes = SplitMix64(seed: seed ^ UInt64(history.count))
        try await link.cut(within: &bytes)
        try checkReason(of: link)
    }

    /// Some things happen at some ends, in any order.
    private func pump() async throws {
        for _ in 0..<(1 + random.below(60)) {
            if random.chance(20) {
                _ = random.pick(left).later.step()
            } else if random.chance(25), let place = sessions.keys.sorted().randomOne(&random) {
                _ = try await sessions[place]?.step(random.below(2))
            } else if let pair = links.keys.sorted().randomOne(&random) {
                _ = try await links[pair]?.step(random.below(2))
            }
        }
    }

    private func evict(_ peer: MeshPeer) throws {
        let id = random.below(3)
        guard try peer.state(keys[id]) != nil else { return }
        history.append("\(peer.name) evicts \(id)")
        try peer.execute("EVICT FROM c WHERE _id = \(id)")
    }

    private func subscribe(_ peer: MeshPeer) async throws {
        guard !areAlike else { return }
        await loseServer(peer)
        for statement in peer.statements.keys { try peer.unsubscribe(statement) }
        let statement = drawStatement()
        history.append("\(peer.name) subscribes to \(statement)")
        try peer.subscribe(statement)
    }

    private func loseServer(_ peer: MeshPeer) async {
        guard let place = peers.firstIndex(where: { $0 === peer }) else { return }
        await sessions.removeValue(forKey: place)?.cut()
    }

    private func restart(_ peer: MeshPeer, putsBack: Bool? = nil) async throws {
        await loseServer(peer)
        for (pair, ends) in pairs.enumerated() where peers[ends.0] === peer || peers[ends.1] === peer {
            try await cut(pair)
        }
        let putsBack = putsBack ?? (!isCalm && peer.isKept && random.chance(50))
        wasPutBack = wasPutBack || putsBack
        history.append("\(peer.name) \(putsBack ? "is put back" : "is kept")")
        try peer.restart(putBack: putsBack, keeping: !putsBack)
    }

    /// A peer deletes a document, and hears from the server that it is gone; others hold it still. The server
    /// reaps only what it knows all operations of, so it is often the document that nobody else writes; then
    /// some neighbours have it and are away.
    private func deleteAndReap() async throws {
        guard reapingChance > 0, beside.chance(reapingChance), let place = inReach.randomOne(&beside)
        else { return }
        let id = beside.chance(50) ? Self.own : beside.below(Self.own)
        if id == Self.own {
            try insertBeside(peers[place], id)
            for pair in pairsOf(place) where beside.chance(70) {
                try await talk(peers[place], pair)
                try await cut(pair)
            }
        }
        let statement = "DELETE FROM c WHERE _id = \(id)"
        history.append("\(peers[place].name) \(statement)")
        try peers[place].execute(statement)
        if sessions[place]?.isOver ?? true { try await beginSession(place) }
        try await sessions[place]?.settle()
        clock.pass(reapingPause)
        try await reap()
        await sessions.removeValue(forKey: place)?.cut()
        try await beginSession(place)
        try await sessions[place]?.settle()
    }

    /// The server refuses what neighbours have taken already. These have more of the document from others,
    /// and are away from them.
    private func writeAndBeRefused() async throws {
        guard let refused, refused != lost, passed >= refusedFrom, right.chance(6) else { return }
        let own = pairsOf(refused).filter { !isGone($0) && right.chance(70) }
        for neighbour in own.map({ pairs[$0].0 == refused ? pairs[$0].1 : pairs[$0].0 }) {
            for pair in pairsOf(neighbour) where !own.contains(pair) && right.chance(70) {
                try await cut(pair)
            }
        }
        try insertBeside(peers[refused], 0)
        for pair in own { try await talk(peers[refused], pair) }
        await loseServer(peers[refused])
        try await beginSession(refused)
        try await sessions[refused]?.settle()
        for pair in own { try await talk(peers[refused], pair) }
    }

    /// Others see what a peer writes; it is put back to before, and passes with what it writes then the
    /// commits that they have seen of it.
    private func breakFragile() async throws {
        guard let fragile, fragile != lost, beside.chance(12) else { return }
        let peer = peers[fragile]
        try await restart(peer, putsBack: false)
        for _ in 0..<(1 + beside.below(3)) { try insertBeside(peer, beside.below(Self.own)) }
        for pair in pairsOf(fragile) where beside.chance(70) { try await talk(peer, pair) }
        try await restart(peer, putsBack: true)
        for _ in 0..<(1 + beside.below(12)) { try insertBeside(peer, beside.below(Self.own)) }
    }

    /// A peer that others can do without is lost, maybe on its way from the server to its neighbours.
    private func lose() async throws {
        guard let doomed else { return }
        let peer = peers[doomed.place]
        if inReach.contains(doomed.place), end.chance(70) {
            try insertBeside(peer, 0)
            for pair in pairsOf(doomed.place) where end.chance(70) { try await talk(peer, pair) }
            await loseServer(peer)
            try await beginSession(doomed.place)
            try await sessions[doomed.place]?.settle()
            for pair in pairsOf(doomed.place) where end.chance(70) {
                try connect(pair)
                for _ in 0..<end.below(40) {
                    _ = end.chance(20) && peer.later.step()
                    _ = try await links[pair]?.step(end.below(2))
                }
            }
        }
        await loseServer(peer)
        for pair in pairsOf(doomed.place) { try await cut(pair) }
        lost = doomed.place
        history.append("\(peer.name) is lost")
    }

    private func insertBeside(_ peer: MeshPeer, _ id: Int) throws {
        let statement =
            "INSERT INTO c DOCUMENTS ({'_id': \(id), 'colour': \(beside.below(3)),"
            + " 'z': \(beside.below(9))}) ON ID CONFLICT DO UPDATE"
        history.append("\(peer.name) \(statement)")
        try peer.execute(statement)
    }

    /// The peers that are not lost.
    var left: [MeshPeer] { peers.enumerated().filter { $0.offset != lost }.map(\.element) }

    /// The peers left that reach the server.
    var inReach: [Int] { reach.filter { $0 != lost } }

    private func isGone(_ pair: Int) -> Bool { pairs[pair].0 == lost || pairs[pair].1 == lost }

    private func pairsOf(_ place: Int) -> [Int] {
        pairs.indices.filter { pairs[$0].0 == place || pairs[$0].1 == place }
    }

    /// Links a peer with a neighbour until neither has anything to tell.
    private func talk(_ peer: MeshPeer, _ pair: Int) async throws {
        try connect(pair)
        var isMoving = true
        while isMoving {
            isMoving = false
            while peer.later.step() { isMoving = true }
            for end in [0, 1] { while try await links[pair]?.step(end) ?? false { isMoving = true } }
        }
    }

    /// A link ends for no other reason than that a side stops, or that it is cut.
    private func checkReason(of link: MeshLinkRun?) throws {
        let reasons = (link?.ends ?? []).compactMap(\.reason)
        let reason = reasons.first { $0.code != "SYNC-0503" && $0 != MeshLinkRun.plainCut }
        guard let reason else { return }
        throw fault("a link ended: \(reason)")
    }

    // MARK: Rest

    private func settle() async throws {
        history.append("rest")
        for pair in pairs.indices { try connect(pair) }
        var quiet = false
        var rounds = 0
        while !quiet {
            quiet = true
            rounds += 1
            guard rounds < 400 else { throw fault("does not come to rest") }
            for peer in left { while peer.later.step() { quiet = false } }
            for pair in pairs.indices where !isGone(pair) {
                if links[pair]?.isOver ?? true { try connect(pair) }
                for place in [0, 1] {
                    while try await links[pair]?.step(place) ?? false { quiet = false }
                }
            }
            for place in inReach {
                if sessions[place]?.isOver ?? true, !waits(for: place) { try await beginSession(place) }
                for end in [0, 1] {
                    while try await sessions[place]?.step(end) ?? false { quiet = false }
                }
            }
            try await server?.flush()
        }
    }

    /// A peer that took a stamp from the future writes behind it: the server waits for then, and takes
    /// nothing of that peer before.
    func waits(for place: Int) -> Bool {
        waits && sessions[place]?.reasons.contains { $0?.isOfClock ?? false } ?? false
    }
}

extension Array {
    fileprivate func randomOne(_ random: inout SplitMix64) -> Element? { isEmpty ? nil : random.pick(self) }
}
