import CRDT
import Exchange
import Foundation
import Identity
import TestSupport
import Testing

@testable import Replica
@testable import Transport

/// A write that a server refuses after links have passed it on (decision 0083).
@Suite("A refused write among small peers", .timeLimit(.minutes(2)))
struct VoidWriteTests {
    private struct World {
        let server: MeshServer
        let peers: [MeshPeer]
        let clock: MeshClock
        let key: DocumentKey

        func link(_ first: Int, _ second: Int) async throws {
            let link = try #require(MeshLinkRun(peers[first], peers[second]))
            try await link.settle()
            link.cut()
        }

        /// Meets the server; without the right to write document 0 if it `isRefused`.
        func meet(_ place: Int, isRefused: Bool = false) async throws {
            let grant = isRefused ? MeshServer.grant(withoutWriting: [0], of: 0..<3) : .everything
            let run = try #require(
                try await MeshServerRun(peers[place], server, grant: grant, at: clock.now))
            try await run.settle()
            await run.cut()
        }

        func text(_ place: Int) throws -> String? {
            try peers[place].state(key).map { "\(try Document(decoding: $0).value)" }
        }

        func areEqual(_ places: Int...) throws -> Bool {
            let states = try places.map { try peers[$0].state(key) }
            return states.allSatisfy { $0 == states[0] }
        }
    }

    private func withWorld(_ count: Int, _ body: (World) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            let clock = MeshClock()
            let server = try await MeshServer(in: folder, clock)
            let peers = try (0..<count).map { place in
                try MeshPeer(
                    "p\(place)", in: folder, seed: UInt64(place) + 1, hasServer: true,
                    milliseconds: { clock.now })
            }
            for peer in peers { try peer.subscribe("SELECT * FROM c") }
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(0)))
            try await body(World(server: server, peers: peers, clock: clock, key: key))
            for peer in peers { try peer.close() }
            await server.close()
        }
    }

    @Test("goes from every peer in reach of its author; what was written on top of it stays")
    func author() async throws {
        try await withWorld(3) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'secret': 7})")
            try await world.link(0, 1)
            try await world.link(1, 2)
            try world.peers[2].execute("UPDATE c SET mine = 1 WHERE _id = 0")
            try await world.link(1, 2)
            try await world.meet(0, isRefused: true)
            #expect(try world.text(0) == nil)
            for _ in 0..<3 {
                try await world.link(0, 1)
                try await world.link(1, 2)
            }
            for place in 0..<3 {
                let text = try #require(try world.text(place))
                #expect(text.contains("mine") && !text.contains("secret"), "\(text)")
                #expect(try !world.peers[place].isTainted(world.key))
            }
            #expect(try world.areEqual(0, 1, 2))
        }
    }

    @Test("is not brought to the server by a peer that may write, and goes from that too")
    func relay() async throws {
        try await withWorld(2) { world in
            try world.peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'kept': 1})")
            try await world.meet(1)
            try await world.meet(0)
            try world.peers[0].execute("UPDATE c SET kept = 2, secret = 7 WHERE _id = 0")
            try await world.link(0, 1)
            #expect(try world.text(1)?.contains("secret") == true)
            try await world.meet(0, isRefused: true)
            try await world.meet(1)
            let state = try #require(try await world.server.state(world.key))
            let shown = "\(try Document(decoding: state).value)"
            #expect(!shown.contains("secret"))
            #expect(try world.peers[1].state(world.key) == state)
            #expect(try world.peers[0].state(world.key) == state)
            // The refused removal of the earlier value spreads no more than the value.
            #expect(try world.text(1)?.contains("kept") == true)
            let position = try await world.server.log.head(of: MeshServer.database).offset
            try await world.link(0, 1)
            try await world.meet(1)
            try await world.meet(0)
            #expect(try await world.server.log.head(of: MeshServer.database).offset == position)
            #expect(try world.peers[1].state(world.key) == state)
        }
    }

    @Test("stays where the server has got it from another peer before it was refused")
    func brought() async throws {
        try await withWorld(2) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 7})")
            try await world.link(0, 1)
            try await world.meet(1)
            #expect(try await world.server.state(world.key) != nil)
            try await world.meet(0, isRefused: true)
            try await world.link(0, 1)
            try await world.meet(1)
            try await world.meet(0, isRefused: true)
            let state = try await world.server.state(world.key)
            for place in 0..<2 { #expect(try world.peers[place].state(world.key) == state) }
            #expect(try world.text(0)?.contains("7") == true)
        }
    }

    @Test("does not come back with a copy from before, from a peer that was away")
    func late() async throws {
        try await withWorld(3) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'secret': 7})")
            try await world.link(0, 1)
            try await world.link(0, 2)
            try await world.meet(0, isRefused: true)
            try await world.link(0, 1)
            #expect(try world.text(1) == nil)
            try await world.link(2, 1)
            try await world.link(2, 1)
            for place in 0..<3 { #expect(try world.text(place) == nil) }
        }
    }
}
