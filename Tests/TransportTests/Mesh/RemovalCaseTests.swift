import DQL
import Exchange
import Foundation
import Identity
import Replicator
import Sync
import Synchronization
import TestSupport
import Testing

@testable import CRDT
@testable import Replica
@testable import Transport

/// The shortest histories in which a removal without a stamp of its own left replicas unequal (decision
/// 0171): small peers with links, and a server that reaps at once.
@Suite("A document that is gone and still shown is deleted anew", .timeLimit(.minutes(2)))
struct RemovalCaseTests {
    private func play(_ count: Int, _ body: (RemovalCase) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            let play = try await RemovalCase(count, in: folder)
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

    @Test("C: of a copy that a restored log is given, what was deleted and reaped meanwhile goes")
    func restoredLog() async throws {
        try await play(3) { play in
            try play.peers[2].execute(insert)
            for place in [2, 1] { try await play.meet(place) }
            // Peer 0 has seen more of the log than the backup has, and nothing of the document.
            try play.peers[0].unsubscribe("SELECT * FROM c")
            try play.peers[0].subscribe("SELECT * FROM d")
            try await play.server.backUp()
            try play.peers[2].execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            for place in [2, 0] { try await play.meet(place) }
            try await play.server.restore()
            try play.peers[0].subscribe("SELECT * FROM c")
            try play.peers[0].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'y': 2})")
            try await play.link(0, 2)
            #expect(try Value.object(play.document(0).value) == ["x": 1, "y": 2])
            try play.peers[1].execute(delete)
            try await play.meet(1)
            #expect(try await play.server.reap() == 1)
            try await play.meet(0)
            #expect(try await Value.object(play.serverDocument().value) == ["y": 2])
            for place in [2, 1, 0, 2, 1] { try await play.meet(place) }
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

    @Test(
        "E: a restored log gets the deletion back from who holds it; where nobody does, the document is back",
        arguments: [false, true])
    func outlivedLog(_ isForgotten: Bool) async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            for place in [0, 1] { try await play.meet(place) }
            try await play.server.backUp()
            try play.peers[1].execute(delete)
            try await play.meet(1)
            #expect(try await play.server.reap() == 1)
            try await play.meet(1)
            if isForgotten { try play.forgetTombstones(1) }
            #expect(try play.document(1).isTombstone == !isForgotten)
            try await play.server.restore()
            for place in [1, 0, 1] { try await play.meet(place) }
            try await play.check(isForgotten ? ["x": 1] : nil)
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

    @Test("G: a question that is under way while its document is reaped ends with a deletion of its own name")
    func underWay() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            for place in [0, 1] { try await play.meet(place) }
            let question = try play.shown(1)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            let told = try await play.answer(to: question)
            // Whoever holds the copy that was shown, and nothing else, does not have this vector.
            #expect(try Document(decoding: told).vector != play.document(1).vector)
            let update = DocumentUpdate(key: play.key, content: .state(told))
            let reception = Reception(updates: [update], settles: [play.key])
            #expect(try play.peers[1].replica.receive(reception) == .stored)
            #expect(try play.document(1).isTombstone)
            for place in [0, 1, 0] { try await play.meet(place) }
            #expect(
                try await [play.document(0), play.document(1), play.serverDocument()].allSatisfy {
                    !$0.isLive
                })
            // Deletions of other names meet in the next write.
            try play.peers[1].execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'y': 2})")
            for place in [1, 0, 1] { try await play.meet(place) }
            try await play.check(["y": 2])
        }
    }

    @Test("H: who has forgotten a deletion writes the document as another actor")
    func forgottenDeletion() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.link(0, 1)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            let actor = play.peers[0].replica.actor
            try play.forgetTombstones(0)
            #expect(try play.document(0).vector.isEmpty)
            // The neighbour lists again the documents that it holds, and they come.
            try await play.link(0, 1)
            #expect(try Value.object(play.document(0).value) == ["x": 1])
            try play.peers[0].execute("UPDATE c SET y = 2 WHERE _id = 1")
            #expect(play.peers[0].replica.actor != actor)
            try await play.link(0, 1)
            for place in [0, 1, 0] { try await play.meet(place) }
            try await play.check(["y": 2])
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

    @Test("J: a deletion that a restored log was given is not reaped before the log has what it removed")
    func beyondFrontier() async throws {
        try await play(2) { play in
            for place in [0, 1] { try await play.meet(place) }
            try await play.server.backUp()
            try play.peers[0].execute(insert)
            for place in [0, 1] { try await play.meet(place) }
            try play.peers[1].execute(delete)
            try await play.meet(1)
            try await play.server.restore()
            try await play.meet(1)
            #expect(try await play.serverDocument().isTombstone)
            #expect(try await play.server.reap() == 0)
            for place in [0, 1, 0] { try await play.meet(place) }
            try await play.check(nil)
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
            let held = try play.shown(0)
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

    @Test("M: a deletion anew of what a follower never had is told to it by nothing")
    func unheardOf() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            try await play.meet(0)
            let question = try play.shown(0)
            try play.peers[0].execute(delete)
            try await play.meet(0)
            #expect(try await play.server.reap() == 1)
            let follower = play.peers[1]
            let run = try #require(try await MeshServerRun(follower, play.server, at: play.server.now))
            try await run.settle()
            let heard = Mutex<[DocumentKey]>([])
            let listener = follower.replica.addListener { commit in
                heard.withLock { $0 += commit.documents }
            }
            _ = try await play.server.ask(.readStates([play.key], held: [question]))
            #expect(try await play.serverDocument().isTombstone)
            try await run.settle()
            await run.cut()
            follower.replica.removeListener(listener)
            #expect(heard.withLock { $0 }.isEmpty)
            #expect(try follower.state(play.key) == nil)
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
            let held = try play.shown(0)
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

    @Test("a removal without a name, of a build before, stays unnoticed until the document is deleted")
    func unnamed() async throws {
        try await play(2) { play in
            try play.peers[0].execute(insert)
            let first = try play.document(0)
            try play.peers[0].execute("UPDATE c SET y = 2 WHERE _id = 1")
            try await play.meet(0)
            // As a purge left it then: the vector, and less than what it names.
            let whole = try play.document(0)
            let unnamed = Document(vector: whole.vector, root: first.root)
            let update = DocumentUpdate(key: play.key, content: .state(unnamed.encoded()))
            #expect(try play.peers[1].replica.receive(Reception(updates: [update])) == .stored)
            for place in [1, 0, 1] { try await play.meet(place) }
            #expect(try play.document(1) == unnamed && play.document(0) == whole)
            try play.peers[0].execute(delete)
            for place in [0, 1] { try await play.meet(place) }
            try await play.check(nil)
        }
    }
}
