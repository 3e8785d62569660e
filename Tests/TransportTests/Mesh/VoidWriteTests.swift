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

        /// Meets the server; without the right to write document 0 if it `isRefused`, which it may know.
        @discardableResult
        func meet(_ place: Int, isRefused: Bool = false, knowsIt: Bool = false) async throws -> [Refusal] {
            let grant = isRefused ? MeshServer.grant(withoutWriting: [0], of: 0..<3) : .everything
            let run = try #require(
                try await MeshServerRun(
                    peers[place], server, grant: grant, checksOwn: knowsIt, at: clock.now))
            try await run.settle()
            await run.cut()
            return run.refusals
        }

        func text(_ place: Int) throws -> String? {
            try peers[place].state(key).map { "\(try Document(decoding: $0).value)" }
        }

        func areEqual(_ places: Int...) throws -> Bool {
            let states = try places.map { try peers[$0].state(key) }
            return states.allSatisfy { $0 == states[0] }
        }
    }

    /// A peer tells another one, as a link does, which stamps of the document are void, and maybe a state.
    private func tell(
        _ peer: MeshPeer, _ key: DocumentKey, void entries: [VersionVector.Entry], _ state: Document? = nil
    ) throws {
        let feed = try #require(LogID(bytes: Array(repeating: 9, count: 16)))
        var updates = [DocumentUpdate(key: key, content: .void(VersionVector(entries).encoded()))]
        if let state { updates.append(DocumentUpdate(key: key, content: .state(state.encoded()))) }
        _ = try peer.replica.feed.receive(
            Reception(updates: updates, cursors: [], publishes: nil, settles: [key], rights: nil), from: feed)
    }

    /// Peer 1 has written the document, and peer 0 changes it; the server has the first of that.
    private func withChange(_ count: Int = 2, _ body: (World) async throws -> Void) async throws {
        try await withWorld(count) { world in
            try world.peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'kept': 1})")
            try await world.meet(1)
            try await world.meet(0)
            try world.peers[0].execute("UPDATE c SET secret = 7 WHERE _id = 0")
            try await world.link(0, 1)
            try await body(world)
        }
    }

    /// The document as it was before peer 0 has changed it.
    private func earlier(_ world: World) async throws -> Document {
        try Document(decoding: try #require(try await world.server.state(world.key)))
    }

    /// The greatest time of an actor in a document.
    private func time(_ actor: ActorID, at peer: MeshPeer, _ key: DocumentKey) throws -> Timestamp {
        let state = try #require(try peer.state(key))
        return try #require(try Document(decoding: state).vector[actor])
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
                #expect(try !world.peers[place].isQuarantined(world.key))
            }
            #expect(try world.areEqual(0, 1, 2))
        }
    }

    @Test("is told again to a peer that has it from elsewhere, and by that to the next one")
    func toldAgain() async throws {
        try await withChange(4) { world in
            try await world.link(0, 3)
            try world.peers[3].execute("UPDATE c SET mine = 1 WHERE _id = 0")
            try await world.meet(2)
            try await world.meet(0, isRefused: true)
            try await world.link(0, 1)
            #expect(try world.text(1)?.contains("secret") == false)
            let live = try #require(MeshLinkRun(world.peers[1], world.peers[2]))
            try await live.settle()
            let other = try #require(MeshLinkRun(world.peers[2], world.peers[3]))
            for _ in 0..<2 {
                try await other.settle()
                try await live.settle()
            }
            for place in 1...3 {
                let text = try #require(try world.text(place))
                #expect(text.contains("mine") && !text.contains("secret"), "peer \(place): \(text)")
                #expect(try !world.peers[place].isQuarantined(world.key))
            }
            #expect(try world.areEqual(1, 2, 3))
            live.cut()
            other.cut()
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

    @Test("what is left of the document comes from a neighbour that was away while another one showed it")
    func away() async throws {
        try await withWorld(2) { world in
            let author = world.peers[0]
            try world.peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'kept': 1})")
            try await world.link(0, 1)
            try author.execute("UPDATE c SET secret = 7 WHERE _id = 0")
            let shown = try Document(decoding: try #require(try author.state(world.key)))
            try await world.meet(0, isRefused: true)
            #expect(try world.text(0) == nil)
            let position = author.replica.head
            try tell(author, world.key, void: [], shown)
            #expect(author.replica.head > position, "the note is told again")
            try await world.link(0, 1)
            #expect(try world.text(0)?.contains("kept") == true)
            #expect(try world.areEqual(0, 1))
        }
    }

    @Test("is void too where its author knows that it may not write: all that it forbids goes at once")
    func known() async throws {
        try await withWorld(2) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'secret': 7})")
            try world.peers[0].execute("UPDATE c SET secret = 8 WHERE _id = 0")
            try await world.link(0, 1)
            let refused = try await world.meet(0, isRefused: true, knowsIt: true)
            #expect(refused.count == 2)
            try await world.meet(1)
            #expect(try await world.server.state(world.key) == nil)
            #expect(try world.text(1) == nil)
        }
    }

    @Test("an author that has evicted the document does not say that nothing is left of it")
    func evicted() async throws {
        try await withChange { world in
            try world.peers[0].unsubscribe("SELECT * FROM c")
            try world.peers[0].execute("EVICT FROM c WHERE _id = 0")
            try await world.meet(0, isRefused: true)
            try await world.link(0, 1)
            #expect(try world.text(1)?.contains("kept") == true)
            try await world.meet(1)
            #expect(try world.text(1)?.contains("kept") == true)
            #expect(try world.text(1)?.contains("secret") == false)
        }
    }

    @Test("a document that a link has emptied comes back from the server")
    func emptied() async throws {
        try await withChange { world in
            let peer = world.peers[1]
            let author = world.peers[0].replica.actor
            let time = try time(author, at: peer, world.key)
            try tell(peer, world.key, void: [.init(actor: author, time: time - 1)], Document())
            #expect(try world.text(1) == nil)
            try await world.meet(1)
            #expect(try world.text(1)?.contains("kept") == true)
        }
    }

    @Test("is none where the server does not confirm it, and is not learned again from a link")
    func unconfirmed() async throws {
        try await withChange { world in
            let peer = world.peers[1]
            let author = world.peers[0].replica.actor
            let told = VersionVector.Entry(
                actor: author, time: try time(author, at: peer, world.key) - 1)
            let clean = try await earlier(world)
            try tell(peer, world.key, void: [told], clean)
            #expect(try world.text(1)?.contains("secret") == false)
            // The server takes the write from its author.
            try await world.meet(0)
            try await world.meet(1)
            #expect(try world.text(1)?.contains("secret") == true)
            #expect(try peer.void(world.key).isEmpty)
            let (head, state) = (peer.replica.head, try peer.state(world.key))
            try tell(peer, world.key, void: [told], clean)
            #expect(try peer.replica.head == head && peer.state(world.key) == state)
        }
    }

    @Test("a link's word counts only with what is left of the document")
    func withoutRest() async throws {
        try await withChange { world in
            let peer = world.peers[1]
            let author = world.peers[0].replica.actor
            let time = try time(author, at: peer, world.key)
            try tell(peer, world.key, void: [.init(actor: author, time: time - 1)])
            #expect(try !peer.isQuarantined(world.key) && peer.void(world.key).isEmpty)
            // Nor with a rest that has the same in it.
            let quarantined = try #require(try peer.state(world.key))
            try tell(
                peer, world.key, void: [.init(actor: author, time: time - 1)],
                try Document(decoding: quarantined))
            #expect(try peer.state(world.key) == quarantined && peer.void(world.key).isEmpty)
        }
    }

    @Test("a link's word counts of a document that is new only with a state that is clean of it")
    func newHere() async throws {
        try await withWorld(2) { world in
            let author = world.peers[0]
            try author.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'kept': 1})")
            let state = try Document(decoding: try #require(try author.state(world.key)))
            try tell(
                world.peers[1], world.key, void: [.init(actor: author.replica.actor, time: 0)], state)
            #expect(try world.text(1)?.contains("kept") == true)
            #expect(try !world.peers[1].isQuarantined(world.key) && world.peers[1].void(world.key).isEmpty)
            try author.execute("UPDATE c SET later = 1 WHERE _id = 0")
            try await world.link(0, 1)
            #expect(try world.text(1)?.contains("later") == true)
        }
    }

    @Test("a link's word counts only with a state that is clean of what others have called void too")
    func quarantinedRest() async throws {
        try await withChange(3) { world in
            let (peer, other) = (world.peers[1], world.peers[2])
            let author = world.peers[0].replica.actor
            let time = try time(author, at: peer, world.key)
            let held = try #require(try peer.state(world.key))
            try await world.meet(2)
            try other.execute("UPDATE c SET forged = 1 WHERE _id = 0")
            let forged = try Document(decoding: try #require(try other.state(world.key)))
            let first = VersionVector.Entry(actor: other.replica.actor, time: 0)
            let second = VersionVector.Entry(actor: author, time: time - 1)
            try tell(peer, world.key, void: [first])
            try tell(peer, world.key, void: [second], forged)
            #expect(try peer.state(world.key) == held && !peer.isQuarantined(world.key))
            #expect(try peer.void(world.key) == VersionVector([first]))
            // A clean state, and the server, are heard as ever.
            try await world.meet(0, isRefused: true)
            try await world.meet(1)
            let state = try await world.server.state(world.key)
            #expect(try peer.state(world.key) == state)
            #expect(try world.text(1)?.contains("kept") == true)
        }
    }

    @Test("of own stamps, a time that is later than every stamp costs no actor and asks for nothing")
    func laterThanAll() async throws {
        try await withChange { world in
            let author = world.peers[0]
            let actor = author.replica.actor
            let held = try Document(decoding: try #require(try author.state(world.key))).vector
            for time in [VoidNote.none, .max] {
                let told = VersionVector([.init(actor: actor, time: time)])
                try tell(author, world.key, void: told.entries)
                var version = DocumentVersion(key: world.key, vector: held.encoded())
                version.void = told.encoded()
                #expect(try author.replica.outdated([version]).isEmpty)
            }
            try author.execute("UPDATE c SET later = 1 WHERE _id = 0")
            #expect(author.replica.actor == actor)
        }
    }

    @Test("forged of what is still to be written, it ends with the author's hearing of it")
    func forgedAhead() async throws {
        try await withChange { world in
            let (author, peer) = (world.peers[0], world.peers[1])
            let actor = author.replica.actor
            let time = try time(actor, at: peer, world.key)
            try tell(peer, world.key, void: [.init(actor: actor, time: time)])
            #expect(try peer.void(world.key)[actor] == time)
            try await world.link(0, 1)
            try author.execute("UPDATE c SET later = 1 WHERE _id = 0")
            #expect(author.replica.actor != actor)
            try await world.link(0, 1)
            #expect(try world.areEqual(0, 1))
            #expect(try world.text(1)?.contains("later") == true)
        }
    }

    @Test("forged of what was written, it takes nothing at the author, and nothing that a server shows")
    func forgedBehind() async throws {
        try await withChange { world in
            let (author, peer) = (world.peers[0], world.peers[1])
            let actor = author.replica.actor
            let time = try time(actor, at: peer, world.key)
            try tell(peer, world.key, void: [.init(actor: actor, time: time - 1)], try await earlier(world))
            try await world.link(0, 1)
            try author.execute("UPDATE c SET later = 1 WHERE _id = 0")
            try await world.link(0, 1)
            #expect(try world.text(0)?.contains("secret") == true)
            #expect(try world.text(1)?.contains("secret") == false)
            for place in [0, 1, 0] { try await world.meet(place) }
            #expect(try world.areEqual(0, 1))
            for field in ["kept", "secret", "later"] {
                #expect(try world.text(1)?.contains(field) == true, "\(field)")
            }
            // From then on links bring it too.
            try author.execute("UPDATE c SET last = 1 WHERE _id = 0")
            try await world.link(0, 1)
            #expect(try world.text(1)?.contains("last") == true)
        }
    }

    @Test("no link takes back what the server, or another link, has called void", arguments: [true, false])
    func takenBack(_ meets: Bool) async throws {
        try await withChange { world in
            let (author, peer) = (world.peers[0].replica.actor, world.peers[1])
            try await world.meet(0, isRefused: true)
            if meets { try await world.meet(1) } else { try await world.link(0, 1) }
            let known = try peer.void(world.key)
            #expect(known[author] != nil)
            for time: Timestamp in [1 << 62, .max] {
                try tell(peer, world.key, void: [.init(actor: author, time: time)], Document())
                #expect(try peer.void(world.key) == known)
            }
            // An earlier time counts of links only.
            try tell(peer, world.key, void: [.init(actor: author, time: 1)], Document())
            #expect(try peer.void(world.key)[author] == (meets ? known[author] : 1))
            #expect(try world.text(1)?.contains("secret") == false)
        }
    }

    @Test("links say nothing of own writes, nor of documents that are not here, nor of any number of actors")
    func bounded() async throws {
        try await withChange { world in
            let peer = world.peers[1]
            let own = VersionVector.Entry(actor: peer.replica.actor, time: 1)
            try peer.execute("UPDATE c SET mine = 1 WHERE _id = 0")
            let before = try peer.state(world.key)
            try tell(peer, world.key, void: [own], Document())
            #expect(try peer.state(world.key) == before)
            #expect(try !peer.isQuarantined(world.key) && peer.void(world.key).isEmpty)
            let absent = DocumentKey(collection: "c", id: try DocumentID(.int(9)))
            let many = (1...200).map { VersionVector.Entry(actor: ActorID($0), time: 1) }
            try tell(peer, absent, void: many)
            #expect(try peer.void(absent).isEmpty)
            try tell(peer, world.key, void: many)
            #expect(try peer.void(world.key).entries.count == ReplicaLimits.voidActors)
        }
    }

    @Test("a refusal that a restored log has forgotten stays known to those who heard of it")
    func forgottenRefusal() async throws {
        try await withWorld(2) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'secret': 7})")
            try await world.server.backUp()
            try await world.link(0, 1)
            try await world.meet(0, isRefused: true)
            for _ in 0..<2 {
                try await world.link(0, 1)
                try await world.meet(1)
            }
            try await world.server.restore()
            for _ in 0..<2 {
                try await world.meet(0, isRefused: true)
                try await world.meet(1)
                try await world.link(0, 1)
            }
            #expect(try world.text(0) == nil && world.areEqual(0, 1))
            #expect(try await world.server.state(world.key) == nil)
            // The author writes on, and is heard.
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'open': 1})")
            #expect(try await world.meet(0, isRefused: true).isEmpty)
        }
    }

    @Test("a refusal that a restored log has forgotten ends if who may write brings what was refused")
    func forgottenAndBrought() async throws {
        try await withWorld(3) { world in
            try world.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'secret': 7})")
            try await world.server.backUp()
            for pair in [(0, 1), (1, 2)] { try await world.link(pair.0, pair.1) }
            try await world.meet(0, isRefused: true)
            try await world.link(0, 1)
            try await world.meet(1)
            #expect(try world.text(1) == nil && world.text(2)?.contains("7") == true)
            try await world.server.restore()
            try await world.meet(2)
            for _ in 0..<2 {
                try await world.meet(0, isRefused: true)
                try await world.meet(1)
                for pair in [(0, 1), (1, 2)] { try await world.link(pair.0, pair.1) }
            }
            try await world.meet(2)
            #expect(try world.text(0)?.contains("7") == true && world.areEqual(0, 1, 2))
            #expect(try await world.server.state(world.key) == world.peers[0].state(world.key))
        }
    }
}
