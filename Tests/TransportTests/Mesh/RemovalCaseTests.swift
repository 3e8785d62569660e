import DQL
import Exchange
import Foundation
import Identity
import Replicator
import Sync
import TestSupport
import Testing

@testable import CRDT
@testable import Replica
@testable import Transport

/// The shortest histories in which a removal without a stamp of its own left replicas unequal (decision
/// 0171): small peers with links, and a server that reaps at once.
@Suite("A document that is gone and still shown is deleted anew", .timeLimit(.minutes(2)))
struct RemovalCaseTests {
    /// Peers of one server, and what happens to them.
    private final class Case {
        let peers: [MeshPeer]
        let server: MeshServer
        let key: DocumentKey
        private(set) var refusals: [Refusal] = []

        init(_ count: Int, in folder: URL) async throws {
            let clock = MeshClock()
            server = try await MeshServer(in: folder, clock)
            peers = try (0..<count).map { place in
                try MeshPeer("p\(place)", in: folder, seed: UInt64(place) + 1, hasServer: true) { clock.now }
            }
            key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
            for peer in peers { try peer.subscribe("SELECT * FROM c") }
        }

        func close() async throws {
            for peer in peers { try peer.close() }
            await server.close()
        }

        /// A peer meets the server until neither has anything to say.
        func meet(_ place: Int) async throws {
            let run = try #require(try await MeshServerRun(peers[place], server, at: server.now))
            try await run.settle()
            refusals += run.refusals
            await run.cut()
        }

        func link(_ first: Int, _ second: Int) async throws {
            let link = try #require(MeshLinkRun(peers[first], peers[second]))
            try await link.settle()
            link.cut()
        }

        /// A peer takes another identity as a writer, as after an eviction.
        func renew(_ place: Int) throws {
            let actor = peers[place].replica.actor
            try peers[place].execute("INSERT INTO c DOCUMENTS ({'_id': 9})")
            try peers[place].execute("EVICT FROM c WHERE _id = 9")
            try peers[place].execute("INSERT INTO c DOCUMENTS ({'_id': 9})")
            #expect(peers[place].replica.actor != actor)
        }

        func document(_ place: Int) throws -> Document {
            try peers[place].state(key).map { try Document(decoding: $0) } ?? Document()
        }

        func serverDocument() async throws -> Document {
            try await server.state(key).map { try Document(decoding: $0) } ?? Document()
        }

        /// Everybody holds the same bytes, which show this; and nothing was refused on the way.
        func check(_ shown: Value?, sourceLocation: SourceLocation = #_sourceLocation) async throws {
            let expected = try await serverDocument()
            for place in peers.indices {
                #expect(try document(place) == expected, "p\(place)", sourceLocation: sourceLocation)
            }
            let value: Value? = expected.isLive ? .object(expected.value) : nil
            #expect(value == shown, sourceLocation: sourceLocation)
            #expect(refusals.isEmpty, sourceLocation: sourceLocation)
        }
    }

    private func play(_ count: Int, _ body: (Case) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            let play = try await Case(count, in: folder)
            try await body(play)
            try await play.close()
        }
    }

    private let insert = "INSERT INTO c DOCUMENTS ({'_id': 1, 'x': 1})"
    private let delete = "DELETE FROM c WHERE _id = 1"

    @Test(
        "A: the remains of a counter stay with the tombstone, so its removal is known wherever it is counted")
    func remainsOfCounter() async throws {
        try await play(2) { play in
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try play.peers[0].execute("UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 1")
            try play.peers[0].execute(delete)
            try await play.meet(0)
            try play.peers[1].execute(insert)
            try await play.link(0, 1)
            #expect(try await play.server.reap() == 0)
            for place in [0, 1, 0] { try await play.meet(place) }
            try await play.check(["x": 1])
        }
    }

    @Test("B: a write onto what was reaped is taken, and no earlier actor's copy comes back beside it")
    func earlierActor() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            try await play.link(0, 1)
            try play.renew(0)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'y': 2})")
            let actor = play.peers[0].replica.actor
            try await play.meet(0)
            #expect(play.peers[0].replica.actor == actor, "nothing was moved")
            for _ in 0..<2 {
                try await play.link(0, 1)
                try await play.meet(0)
                try await play.meet(1)
            }
            try await play.check(["y": 2])
        }
    }

    @Test("D: of a state that is given, what was deleted and reaped goes, and what nobody has seen stays")
    func halfAnActor() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            try await play.meet(1)
            try play.peers[0].execute("UPDATE c SET y = 2 WHERE _id = 1")
            try play.peers[1].execute(delete)
            try await play.meet(1)
            #expect(try await play.server.reap() == 1)
            let state = try #require(try play.peers[0].state(play.key))
            _ = try await play.server.ask(.admitStates([(key: play.key, state: state)], isReturn: false))
            #expect(try await Value.object(play.serverDocument().value) == ["y": 2])
            for place in [0, 1, 0] { try await play.meet(place) }
            try await play.check(["y": 2])
        }
    }

    @Test("F: what a neighbour has of a write onto what was reaped is not void")
    func takenByLink() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'y': 2})")
            try await play.link(0, 1)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            try await play.link(0, 1)
            try await play.meet(1)
            try await play.check(nil)
        }
    }

    @Test(
        "I: who deletes a counter and counts again has the same total as the server, however often it reaps")
    func countedAgain() async throws {
        try await play(2) { play in
            for amount in 1...3 {
                try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                try play.peers[0].execute("UPDATE c APPLY n INCREMENT BY \(amount) WHERE _id = 1")
                try await play.meet(0)
                try await play.meet(1)
                try await play.check(["n": .int(Int64(amount))])
                try play.peers[amount % 2].execute(delete)
                for place in [0, 1, 0] { try await play.meet(place) }
                #expect(try await play.server.reap() == 0)
                try await play.check(nil)
            }
        }
    }

    @Test(
        "a peer that was away for long shows what was reaped, and ends with the deletion", arguments: [0, 1])
    func away(_ writer: Int) async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            try await play.meet(1)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            // Its writes meanwhile survive alone, whoever writes.
            try play.peers[writer].execute(
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'z': 3}) ON ID CONFLICT DO UPDATE")
            for place in [1, 0, 1] { try await play.meet(place) }
            try await play.check(["z": 3])
        }
    }

    @Test("K: what a whole page shows is one entry, and the same page again causes none")
    func page() async throws {
        try await play(1) { play in
            let count = 1_024
            let documents = (1...count).map { "({'_id': \($0)})" }.joined(separator: ", ")
            try play.peers[0].execute("INSERT INTO c DOCUMENTS \(documents)")
            try await play.meet(0)
            let query = try SubscriptionQuery(statement: "SELECT * FROM c")
            let page = try play.peers[0].replica.held(of: query, after: nil)
            #expect(page.candidates.count == count)
            try play.peers[0].execute("DELETE FROM c")
            try await play.meet(0)
            #expect(try await play.server.reap() == count)
            func compare() async throws -> (told: Int, entries: UInt64) {
                let before = try await play.server.log.head(of: MeshServer.database).offset
                var page = page
                var told = 0
                while true {
                    let answer = try await play.server.ask(
                        .compareHeld(subscription: 1, query: query, access: .everything, page))
                    guard case .compared(_, let found)? = answer else { break }
                    #expect(found.gone.isEmpty)
                    told += found.documents.count
                    guard let through = found.through else { break }
                    page.after = through
                    page.candidates.removeAll { $0.key.id <= through }
                }
                let after = try await play.server.log.head(of: MeshServer.database).offset
                return (told, after.rawValue - before.rawValue)
            }
            let (first, second) = (try await compare(), try await compare())
            #expect(first.told == count && first.entries == 1)
            #expect(second.told == count && second.entries == 0)
        }
    }

    @Test("L: two who show the same at once cause one deletion")
    func atOnce() async throws {
        try await play(1) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            let held = DocumentVersion(key: play.key, vector: try play.document(0).vector.encoded())
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            let before = try await play.server.log.head(of: MeshServer.database).offset
            let server = play.server.asker
            let key = play.key
            let answers = try await withThrowingTaskGroup(of: EncodedState?.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let answer = try await server.perform(.readStates([key], held: [held]))
                        guard case .states(let states, _, let gone)? = answer, gone.isEmpty else {
                            return nil
                        }
                        return states.first?.state
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(answers.map { $0?.bytes }).count == 1)
            let told = try Document(decoding: try #require(answers.first ?? nil))
            #expect(told.isTombstone && told.vector.entries.count == 2)
            #expect(try await play.server.log.head(of: MeshServer.database).offset == before.next)
        }
    }

    @Test(
        "writes that rest on other lost parts, and a document that is named twice, are one entry"
    )
    func namedTwice() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            try await play.meet(1)
            try play.renew(0)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            // One write rests on what was there, the next one, by another actor, on the deletion too.
            try play.peers[1].execute("UPDATE c SET y = 2 WHERE _id = 1")
            try play.renew(1)
            try await play.link(0, 1)
            try play.peers[1].execute("UPDATE c SET z = 3 WHERE _id = 1")
            for place in [1, 0, 1] { try await play.meet(place) }
            try await play.check(["y": 2, "z": 3])
            let held = DocumentVersion(key: play.key, vector: try play.document(0).vector.encoded())
            try play.peers[0].execute(delete)
            for place in [0, 1] { try await play.meet(place) }
            #expect(try await play.server.reap() == 1)
            _ = try await play.server.ask(.readStates([play.key], held: [held, held]))
            #expect(try await play.serverDocument().isTombstone)
        }
    }

    @Test("a peer that claims what it never saw harms nothing, and takes nothing", arguments: [0, 1])
    func liar(_ ahead: UInt64) async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            for place in [0, 1] { try await play.meet(place) }
            let own = try #require(try play.document(0).vector.entries.first)
            let other = DocumentKey(collection: "c", id: try DocumentID(.int(2)))
            let last = try #require(try await play.server.vector(of: other).entries.first)
            let claim = VersionVector([
                .init(actor: own.actor, time: last.time + ahead), .init(actor: ActorID(77), time: 5),
            ])
            for claim in [claim, VersionVector([.init(actor: own.actor, time: last.time + ahead)])] {
                let held = DocumentVersion(key: play.key, vector: claim.encoded())
                _ = try await play.server.ask(.readStates([play.key], held: [held]))
            }
            #expect(try await Value.object(play.serverDocument().value) == ["x": 1])
            // Its author writes on, and nothing that it writes is lost.
            try play.peers[0].execute("UPDATE c SET y = 2 WHERE _id = 1")
            for place in [0, 1, 0] { try await play.meet(place) }
            let expected = try await play.serverDocument()
            #expect(Value.object(expected.value) == ["x": 1, "y": 2])
            for place in [0, 1] { #expect(try play.document(place) == expected) }
        }
    }
}
