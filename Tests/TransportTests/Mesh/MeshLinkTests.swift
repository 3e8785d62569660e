import CRDT
import DQL
import Exchange
import Foundation
import Sync
import TestSupport
import Testing

@testable import Replica
@testable import Transport

/// Two and three small peers with real stores and sessions, step by step.
@Suite("Small peers that sync without a server", .timeLimit(.minutes(2)))
struct MeshLinkTests {
    private static let all = "SELECT * FROM c"

    private func withPeers(
        _ names: String..., subscribing statement: String = all,
        _ body: ([MeshPeer]) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let peers = try names.enumerated().map { place, name in
                try MeshPeer(name, in: folder, seed: UInt64(place) + 1) { 1_800_000_000_000 }
            }
            for peer in peers { try peer.subscribe(statement) }
            try await body(peers)
            for peer in peers { try peer.close() }
        }
    }

    private func id(_ number: Int64) throws -> DocumentKey {
        DocumentKey(collection: "c", id: try DocumentID(.int(number)))
    }

    private func link(_ first: MeshPeer, _ second: MeshPeer) throws -> MeshLinkRun {
        try #require(MeshLinkRun(first, second))
    }

    private func areEqual(_ peers: [MeshPeer], _ key: DocumentKey) throws -> Bool {
        let states = try peers.map { try $0.state(key) }
        return states.allSatisfy { $0 != nil && $0 == states[0] }
    }

    @Test("what each had before they met, and what each writes then, comes to the other")
    func two() async throws {
        try await withPeers("a", "b") { peers in
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            try peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 2})")
            let link = try link(peers[0], peers[1])
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
            #expect(try areEqual(peers, id(2)))
            try peers[0].execute("UPDATE c SET n = 10 WHERE _id = 2")
            try peers[1].execute("DELETE FROM c WHERE _id = 1")
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
            #expect(try areEqual(peers, id(2)))
            // Nothing is echoed: what one has sent changes nothing there, and comes back from nobody.
            let heads = peers.map(\.replica.head)
            let frames = link.frames
            try await link.settle()
            #expect(peers.map(\.replica.head) == heads)
            #expect(link.frames == frames)
        }
    }

    @Test("a change goes live as a delta, and is not sent back")
    func live() async throws {
        try await withPeers("a", "b") { peers in
            let text = String(repeating: "x", count: 20_000)
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 't': '\(text)', 'n': 0})")
            let link = try link(peers[0], peers[1])
            try await link.settle()
            let before = link.bytes
            for number in 1...20 { try peers[number % 2].execute("UPDATE c SET n = \(number) WHERE _id = 1") }
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
            #expect(link.bytes - before < 20_000, "twenty small changes of a large document")
        }
    }

    @Test("the next link goes on at the cursor, and one whose other side was put back lists")
    func cursors() async throws {
        try await withPeers("a", "b") { peers in
            for number in 1...50 {
                try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': 0})")
            }
            let first = try link(peers[0], peers[1])
            try await first.settle()
            first.cut()
            try peers[0].execute("UPDATE c SET n = 1 WHERE _id = 7")
            let second = try link(peers[1], peers[0])
            try await second.settle()
            #expect(try areEqual(peers, id(7)))
            #expect(second.bytes < 2_000, "\(second.bytes) bytes")
            second.cut()
            // A second history reaches the same commit with other content.
            try peers[0].restart(keeping: true)
            try peers[0].execute("UPDATE c SET n = 2 WHERE _id = 8")
            let third = try link(peers[0], peers[1])
            try await third.settle()
            third.cut()
            try peers[0].restart(putBack: true)
            try peers[0].execute("UPDATE c SET n = 3 WHERE _id = 9")
            let fourth = try link(peers[0], peers[1])
            try await fourth.settle()
            #expect(try areEqual(peers, id(8)), "what the other side had of it comes back")
            #expect(try areEqual(peers, id(9)))
        }
    }

    @Test("one in between passes on what it holds")
    func chain() async throws {
        try await withPeers("a", "b", "c") { peers in
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let links = [try link(peers[0], peers[1]), try link(peers[1], peers[2])]
            for _ in 0..<3 { for link in links { try await link.settle() } }
            #expect(try areEqual(peers, id(1)))
            try peers[2].execute("UPDATE c SET n = 2 WHERE _id = 1")
            for _ in 0..<3 { for link in links { try await link.settle() } }
            #expect(try areEqual(peers, id(1)))
        }
    }

    @Test("an old copy that comes from elsewhere is asked about")
    func entered() async throws {
        try await withPeers("a", "b", "c") { peers in
            // c has the document; a deletes it, and b never held it.
            try peers[2].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let old = try link(peers[2], peers[0])
            try await old.settle()
            old.cut()
            try peers[0].execute("DELETE FROM c WHERE _id = 1")
            let known = try link(peers[0], peers[1])
            try await known.settle()
            #expect(try peers[1].state(id(1)) == nil, "a deletion is told only to who holds the document")
            let brings = try link(peers[2], peers[1])
            try await brings.settle()
            #expect(try peers[1].state(id(1)) != nil)
            try await known.settle()
            #expect(try areEqual([peers[0], peers[1]], id(1)))
        }
    }

    @Test("what the server has reaped goes at a neighbour too, and does not come back from one that was away")
    func gone() async throws {
        try await withPeers("a", "b", "c") { peers in
            for number in 1...2 {
                try peers[2].execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': 1})")
            }
            for other in peers[..<2] {
                let first = try link(peers[2], other)
                try await first.settle()
                first.cut()
            }
            try peers[2].execute("UPDATE c SET m = 2 WHERE _id = 2")
            // The server had them deleted and reaped, and has deleted them anew.
            for number in [2, 1] as [Int64] {
                let held = try Document(decoding: try #require(try peers[0].state(id(number)))).vector
                let stamp = Stamp(time: try #require(held.greatestTime) + 1, actor: ActorID(99))
                let anew = Document().raised(to: held, by: stamp)
                _ = try peers[0].replica.receive(
                    Reception(updates: [DocumentUpdate(key: id(number), content: .state(anew.encoded()))]))
            }
            let near = try link(peers[0], peers[1])
            try await near.settle()
            #expect(try areEqual(Array(peers[..<2]), id(1)))
            let late = try link(peers[2], peers[1])
            for _ in 0..<3 { for link in [near, late] { try await link.settle() } }
            #expect(try areEqual(peers, id(1)))
            #expect(try !Document(decoding: try #require(try peers[2].state(id(1)))).isLive)
            // What somebody wrote there unseen stays, and is the same at all.
            #expect(try areEqual(peers, id(2)))
            let left = try Document(decoding: try #require(try peers[0].state(id(2))))
            #expect(left.value["m"] == .int(2) && left.value["n"] == nil)
        }
    }

    @Test("a store that was put back hears of it by a neighbour's cursor, and writes on as another actor")
    func putBack() async throws {
        try await withPeers("a", "b") { peers in
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            try peers[0].restart(keeping: true)
            try peers[0].execute("UPDATE c SET n = 2 WHERE _id = 1")
            let first = try link(peers[0], peers[1])
            try await first.settle()
            first.cut()
            try peers[0].restart(putBack: true, knowing: false)
            let before = peers[0].replica.actor
            let second = try link(peers[0], peers[1])
            try await second.settle()
            #expect(peers[0].replica.actor != before)
            try peers[0].execute("UPDATE c SET m = 1 WHERE _id = 1")
            try await second.settle()
            #expect(try areEqual(peers, id(1)))
            let left = try Document(decoding: try #require(try peers[0].state(id(1))))
            #expect(left.value["n"] == .int(2) && left.value["m"] == .int(1))
            // A cursor that counts proves nothing.
            second.cut()
            try peers[0].restart()
            let third = try link(peers[1], peers[0])
            let actor = peers[0].replica.actor
            try await third.settle()
            #expect(peers[0].replica.actor == actor)
        }
    }

    @Test(
        "a document from the future waits until its time has come, and holds up no other",
        arguments: [true, false])
    func ahead(_ isReliable: Bool) async throws {
        try await withTemporaryDirectory { folder in
            let (clock, late) = (MeshClock(), MeshClock())
            clock.pass(86_400_000)
            let peers = [
                try MeshPeer("a", in: folder, seed: 1) { clock.now },
                try MeshPeer("b", in: folder, seed: 2) { late.now },
            ]
            for peer in peers { try peer.subscribe(Self.all) }
            try peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 1})")
            let link = try #require(
                MeshLinkRun(peers[0], peers[1]) { $0.isClockTrusted = isReliable && !$0.isDialer })
            try await link.settle()
            for statement in [
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})", "UPDATE c SET m = 1 WHERE _id = 1",
                "UPDATE c SET n = 2 WHERE _id = 1",
            ] {
                try peers[0].execute(statement)
                try await link.settle()
            }
            #expect(try (peers[1].state(id(1)) == nil) == isReliable)
            try peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1})")
            try await link.settle()
            #expect(try areEqual(peers, id(2)) && areEqual(peers, id(3)))
            late.pass(86_400_000)
            peers[1].feed.askForDue()
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
            #expect(!link.isOver)
            for peer in peers { try peer.close() }
        }
    }

    @Test("a document that was evicted under a subscription comes again")
    func evicted() async throws {
        try await withPeers("a", "b") { peers in
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let link = try link(peers[0], peers[1])
            try await link.settle()
            try peers[1].execute("EVICT FROM c WHERE _id = 1")
            #expect(try peers[1].state(id(1)) == nil)
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
        }
    }

    @Test("a document that left one subscription is named to another that it may belong to")
    func named() async throws {
        try await withTemporaryDirectory { folder in
            let peers = try ["a", "b"].enumerated().map { place, name in
                try MeshPeer(name, in: folder, seed: UInt64(place) + 1) { 1_800_000_000_000 }
            }
            try peers[0].subscribe("SELECT * FROM c WHERE kind = 'red'")
            try peers[1].subscribe("SELECT * FROM c WHERE kind = 'blue'")
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'kind': 'blue', 'n': 1})")
            let link = try link(peers[0], peers[1])
            try await link.settle()
            #expect(try areEqual(peers, id(1)))
            try peers[0].execute("UPDATE c SET kind = 'green' WHERE _id = 1")
            try await link.settle()
            #expect(try areEqual(peers, id(1)), "the change that makes it leave is told")
            try peers[0].execute("UPDATE c SET n = 2 WHERE _id = 1")
            try await link.settle()
            #expect(try areEqual(peers, id(1)), "who holds it hears of changes that match nothing")
            // In one frame, behind another one: the change that matches nothing comes with what brings the
            // document.
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'kind': 'blue'})")
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'kind': 'blue', 'n': 1})")
            try peers[0].execute("UPDATE c SET kind = 'green' WHERE _id = 2")
            try peers[0].execute("UPDATE c SET n = 2 WHERE _id = 2")
            try await link.settle()
            #expect(try areEqual(peers, id(2)), "it is asked for, though it was not here before")
            for peer in peers { try peer.close() }
        }
    }

    @Test(
        "another group, database, version or oneself end the link with the code",
        arguments: [
            (SyncErrorCode.otherGroup, 0), (.wrongDatabase, 1), (.doubleLink, 2), (.linkDenied, 3),
        ])
    func refused(_ code: SyncErrorCode, _ way: Int) async throws {
        try await withPeers("a", "b") { peers in
            let other = way == 2 ? peers[0] : peers[1]
            let link = try #require(
                MeshLinkRun(peers[0], other) { link in
                    if way == 0, link.isDialer { link.syncGroup = 7 }
                    if way == 1, link.isDialer { link.databaseID = "other" }
                    if way == 3, !link.isDialer {
                        link.meets = { _, _ in throw SyncError(.linkDenied, "the application says no") }
                    }
                })
            try await link.settle()
            #expect(link.ends.compactMap(\.reason).map(\.code) == [code.rawValue, code.rawValue])
        }
    }

    @Test("what the other side may not read is not told, and what it may not write is not taken")
    func rights() async throws {
        try await withPeers("a", "b") { peers in
            for peer in peers { try peer.subscribe("SELECT * FROM d") }
            try peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try peers[0].execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            let link = try #require(
                MeshLinkRun(peers[0], peers[1]) { link in
                    if link.isDialer {
                        link.access = ReadAccess(collection: { $0 == "c" })
                    } else {
                        link.mayWrite = { $0.collection == "d" }
                    }
                })
            try await link.settle()
            #expect(try peers[1].state(id(1)) == nil, "a may not write c at b")
            let hidden = DocumentKey(collection: "d", id: try id(1).id)
            #expect(try peers[1].state(hidden) == nil, "b may not read d at a")
        }
    }
}
