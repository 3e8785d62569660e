import CRDT
import TestSupport
import Testing

@testable import Sync

@Suite("Presence in a mesh", .timeLimit(.minutes(10)))
struct PresenceWorldTests {
    enum Shape: String, CaseIterable { case chain, ring, star, clique, random }

    private static func edges(_ shape: Shape, _ count: Int, seed: UInt64) -> [(Int, Int)] {
        let line = (1..<count).map { ($0 - 1, $0) }
        var random = SplitMix64(seed: seed)
        return switch shape {
        case .chain: line
        case .ring: line + [(count - 1, 0)]
        case .star: (1..<count).map { (0, $0) }
        case .clique: (0..<count).flatMap { one in (one + 1..<count).map { (one, $0) } }
        case .random:
            (1..<count).flatMap { peer in
                (0..<2).map { _ in (Int(random.next() % UInt64(peer)), peer) }
            }
        }
    }

    private func build(_ shape: Shape, _ count: Int, seed: UInt64 = 1) -> PresenceWorld {
        let world = PresenceWorld(count, seed: seed)
        for (one, other) in Self.edges(shape, count, seed: seed) { world.link(one, other) }
        return world
    }

    @Test(
        "all graphs are equal within 5 s: at the start, after a name, a cut, a kill and a start",
        arguments: Shape.allCases)
    func shapes(_ shape: Shape) throws {
        let count = shape == .clique ? 12 : 16
        let world = build(shape, count)
        func settles(_ what: String) {
            #expect(world.settle(within: .seconds(5)) != nil, "\(shape), \(what): \(world.difference ?? "")")
        }
        settles("the start")
        world.name(3, "another name", isConnected: true)
        settles("another name")
        let edge = Self.edges(shape, count, seed: 1)[count / 2]
        world.cut(edge.0, edge.1)
        settles("a cut")
        world.link(edge.0, edge.1)
        settles("a mended cut")
        world.kill(count / 2)
        settles("a killed peer")
        world.restart(count / 2)
        for (one, other) in Self.edges(shape, count, seed: 1) where one == count / 2 || other == count / 2 {
            world.link(one, other)
        }
        settles("a peer that is back")
        world.leave(1)
        settles("a peer that left")
        #expect(world.warnings.isEmpty)
    }

    @Test("a cable that is pulled, which one end hears of 15 s later, is out of all graphs 5 s after that")
    func pulled() {
        let world = build(.ring, 12)
        #expect(world.settle(within: .seconds(5)) != nil)
        world.cut(4, 5, later: .seconds(15))
        #expect(world.settle(within: .seconds(5)) != nil, "\(world.difference ?? "")")
    }

    @Test("lost frames are made up for by digests: one in four is lost, and two minutes later all are equal")
    func losses() {
        let world = build(.random, 20)
        world.lossEach = 4
        world.run(for: .seconds(30))
        world.kill(7)
        world.name(3, "late")
        world.run(for: .seconds(60))
        world.lossEach = 0
        #expect(world.settle(within: .seconds(60)) != nil, "\(world.difference ?? "")")
    }

    @Test(
        "a record that its author's own link loses comes by the digests of another, as long as that lasts",
        arguments: [Shape.ring, .clique])
    func silentLink(_ shape: Shape) {
        // Nobody passes a record on to a neighbour of its author, who tells it itself.
        let count = shape == .ring ? 3 : 6
        let world = build(shape, count)
        #expect(world.settle(within: .seconds(5)) != nil)
        world.silence(from: 0, to: 2)
        for round in 1...4 {
            world.name(0, "name \(round)")
            #expect(world.settle(within: .seconds(32)) != nil, "round \(round): \(world.difference ?? "")")
            world.run(for: .seconds(40))
            #expect(world.difference == nil)
        }
    }

    @Test("two dead ends that name each other die with their records: nothing keeps a ghost alive")
    func ghosts() {
        // The last two of the chain go at once; the others have records of both, which name each other.
        let world = build(.chain, 8)
        #expect(world.settle(within: .seconds(5)) != nil)
        world.kill(6)
        world.kill(7)
        #expect(world.settle(within: .seconds(5)) != nil, "\(world.difference ?? "")")
        world.run(for: .seconds(120))
        #expect(world.difference == nil)
    }

    @Test("a peer whose store was put back is known again within 5 s, by a start that it skips")
    func putBack() {
        let world = build(.chain, 6)
        world.run(for: .seconds(200))
        world.kill(5)
        // Its record has ended everywhere, and is remembered.
        world.run(for: .seconds(100))
        world.restart(5, putBack: true)
        world.name(5, "put back")
        world.link(4, 5)
        #expect(world.settle(within: .seconds(5)) != nil, "\(world.difference ?? "")")
        #expect(world.warnings.count == 1 && world.warnings.first?.contains("put back") == true)
    }

    @Test("at rest peers tell keep-alives and digests only: a bounded number of frames")
    func quiet() {
        let world = build(.ring, 10)
        #expect(world.settle(within: .seconds(5)) != nil)
        world.run(for: .seconds(60))
        let before = world.messages
        world.run(for: .seconds(300))
        // In 300 s ten keep-alives of ten peers go both ways round, and digests over 20 ends of links.
        #expect(world.messages - before < 10 * (10 * 12 + 2 * 20))
        #expect(world.difference == nil)
    }

    @Test("without multihop peers know their neighbours, and nobody else")
    func neighbours() {
        let world = PresenceWorld(5, seed: 3)
        var settings = PresenceGossip.Settings()
        settings.usesMultihop = false
        world.set(settings)
        for place in 1..<5 { world.link(place - 1, place) }
        world.run(for: .seconds(40))
        #expect(world.graph(2)?.peers.map(\.peerKey) == ["pk01", "pk03"])
        let names = world.graph(2)?.peers.map { $0.record?.facts.deviceName }
        #expect(names == ["device 1", "device 3"])
        #expect(world.graph(2)?.connections.count == 2)
    }

    @Test("identity metadata comes with the certificate, which is fetched over every hop")
    func certificates() {
        let world = build(.chain, 5)
        world.run(for: .seconds(5))
        let metadata = world.graph(0)?.peers.map(\.identityMetadata)
        #expect(metadata == Array(repeating: #"{"by":"authority"}"#, count: 4))
    }

    @Test("random histories with cuts, kills, starts and losses end in equal graphs")
    func histories() {
        for seed in Depth.seeds(fast: 4, deep: 200) {
            history(seed, count: 10 + Int(seed % 31), steps: Depth.pick(fast: 10, deep: 60))
        }
    }

    private func history(_ seed: UInt64, count: Int, steps: Int) {
        var random = SplitMix64(seed: seed)
        let shape = Shape.allCases[Int(random.next() % 3) + (count > 20 ? 0 : 2)]
        let world = build(shape, count, seed: seed)
        let edges = Self.edges(shape, count, seed: seed)
        var dead: Set<Int> = []
        for _ in 0..<steps {
            let (one, other) = edges[Int(random.next() % UInt64(edges.count))]
            switch random.next() % 6 {
            case 0: world.cut(one, other)
            case 1, 2:
                for place in dead { world.restart(place, putBack: random.next() % 4 == 0) }
                dead = []
                for (one, other) in edges { world.link(one, other) }
            case 3 where dead.count < count / 2:
                if dead.insert(one).inserted { world.kill(one) }
            case 4: world.lossEach = random.next() % 2 == 0 ? 0 : 3
            default: if !dead.contains(other) { world.name(other, "n\(random.next() % 100)") }
            }
            world.run(for: .milliseconds(Int64(random.next() % 8_000)))
        }
        world.lossEach = 0
        #expect(
            world.settle(within: .seconds(65)) != nil,
            "seed \(seed), \(shape), \(count): \(world.difference ?? "")")
        // Nothing comes back from anybody's memory.
        world.run(for: .seconds(70))
        #expect(world.difference == nil, "seed \(seed)")
    }

    @Test("40 peers that come and go for ten minutes leave no ghost", .enabled(if: Depth.current == .deep))
    func fortyPeers() { churn(count: 40, rounds: 60) }

    @Test("a sample of it: 40 peers that come and go for a minute leave no ghost")
    func fortyPeersBriefly() { churn(count: 40, rounds: 4) }

    private func churn(count: Int, rounds: Int) {
        var random = SplitMix64(seed: 40)
        let world = build(.random, count, seed: 40)
        let edges = Self.edges(.random, count, seed: 40)
        var slowest = Duration.zero
        for round in 0..<rounds {
            let place = Int(random.next() % UInt64(count))
            world.kill(place)
            let gone = world.settle(within: .seconds(5))
            #expect(gone != nil, "round \(round): \(world.difference ?? "")")
            world.restart(place)
            for (one, other) in edges where one == place || other == place { world.link(one, other) }
            let back = world.settle(within: .seconds(5))
            #expect(back != nil, "round \(round): \(world.difference ?? "")")
            slowest = max(slowest, gone ?? .zero, back ?? .zero)
            world.run(for: .seconds(5))
        }
        print("40 peers, \(rounds) kills and starts: all graphs equal after \(slowest) at most")
    }
}
