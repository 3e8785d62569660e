import TestSupport
import Testing

@testable import Transport

/// Networks of many peers, with beacons and links but without sockets.
@Suite("Peers of a network choose whom to link with")
struct LanWorldTests {
    private static let seeds: [UInt64] = [1, 2]

    /// Two networks, the first with the first half of the peers.
    private static func islands(_ count: Int) -> (Int, Int) -> Bool {
        { one, other in (one < count / 2) == (other < count / 2) }
    }

    @Test(
        "peers of one network are one graph within seconds, within their bounds, and then nothing changes",
        arguments: [2, 10, 24], seeds)
    func oneNetwork(count: Int, seed: UInt64) throws {
        var world = LanWorld(count, seed: seed)
        let time = world.time(until: { $0.isOneGraph }, within: .seconds(10))
        #expect(try #require(time) <= .seconds(4))
        world.run(LanWorld.churnInterval * 4)
        for number in world.peers.indices {
            let (outgoing, incoming) = world.counts(number)
            #expect(outgoing <= Limits.chosenLinks && incoming <= Limits.incomingLinks)
        }
        let before = world.peers.map(\.choices)
        world.run(LanWorld.churnInterval * 4)
        #expect(world.peers.map(\.choices) == before)
        #expect(world.isOneGraph)
    }

    @Test(
        "two networks that are bridged become one graph: at once with free places, else by the next churn",
        arguments: [true, false], seeds)
    func bridged(hasPresence: Bool, seed: UInt64) throws {
        for (count, outgoing) in [(4, 4), (16, 2)] {
            var world = LanWorld(count, seed: seed, outgoing: outgoing)
            world.hasPresence = hasPresence
            world.hears = Self.islands(count)
            world.run(LanWorld.churnInterval * 3)
            #expect(!world.isOneGraph)
            let areFull = world.peers.indices.allSatisfy { world.counts($0).outgoing == outgoing }
            #expect(areFull == (count == 16))
            world.hears = { _, _ in true }
            let limit = areFull ? LanWorld.churnInterval + .seconds(10) : .seconds(10)
            let time = world.time(until: { $0.isOneGraph }, within: limit)
            #expect(time != nil)
        }
    }

    @Test(
        "networks that one peer alone sees both of join over it, by the graph of presence", arguments: seeds)
    func narrowBridge(seed: UInt64) throws {
        let islands = Self.islands(16)
        var world = LanWorld(16, seed: seed, outgoing: 2)
        world.hears = islands
        world.run(LanWorld.churnInterval * 3)
        // Number 0 gets a second network card. The others have no place left for it.
        world.hears = { one, other in islands(one, other) || min(one, other) == 0 }
        let time = world.time(until: { $0.isOneGraph }, within: LanWorld.churnInterval * 4)
        #expect(time != nil)
        world.run(LanWorld.churnInterval * 4)
        #expect(world.isOneGraph)
    }

    @Test("peers that come and go for minutes are one graph soon after the last change", arguments: seeds)
    func churn(seed: UInt64) throws {
        var world = LanWorld(16, seed: seed)
        for _ in 0..<20 {
            let number = world.random.below(16)
            if world.peers[number].isAlive { world.stop(number) } else { world.start(number) }
            world.run(.seconds(Int64(world.random.below(8))))
        }
        for number in world.peers.indices where !world.peers[number].isAlive { world.start(number) }
        let time = world.time(until: { $0.isOneGraph }, within: .seconds(20))
        #expect(time != nil)
    }
}
