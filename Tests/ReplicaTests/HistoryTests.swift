import CRDT
import DQL
import Foundation
import TestSupport
import Testing

@testable import Replica

/// Random histories of several peers that exchange operations through a log: see `World`.
@Suite("Random histories of stores")
struct HistoryTests {
    static let peers = 4
    static let steps = 120

    @Test(
        "stores end with the same bytes, and a full subscriber needs no state but those it asked for",
        arguments: Depth.cases(fast: 5, deep: 240))
    func converge(_ seed: Int) throws {
        try withTemporaryDirectory { folder in
            let world = try World(folder: folder, seed: UInt64(seed), peers: Self.peers)
            for _ in 0..<Self.steps { try world.step() }
            for peer in world.peers { try world.upload(peer) }
            #expect(world.log.operations.count > 10)

            let reader = world.peers[0]
            try world.download(reader, upTo: world.log.head.offset)
            let expected = try world.server.everything()
            let missing = expected.keys.filter { reader.evicted.contains($0) }
            let present = expected.filter { !missing.contains($0.key) }
            #expect(try reader.replica.everything().filter { !missing.contains($0.key) } == present)

            for peer in world.peers {
                try world.sendStates(to: peer, chance: 100)
                #expect(try peer.replica.everything() == expected)
                let acknowledged = try peer.replica.acknowledgedCommit()
                #expect(acknowledged == peer.replica.head)
            }
            try Self.expectSameFold(world, folder)
        }
    }

    /// Two materializations of one log, folded in different batches, hold the same bytes.
    private static func expectSameFold(_ world: World, _ folder: URL) throws {
        let twin = try openFold(folder.appendingPathComponent("twin"))
        for item in world.log.items() { _ = try twin.fold([item]) }
        #expect(try twin.everything() == world.server.everything())
        #expect(try twin.checkpoint() == world.server.checkpoint())
    }
}
