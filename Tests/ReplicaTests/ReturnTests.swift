import CRDT
import DQL
import Exchange
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Replica

@Suite("A store that was away")
struct ReturnTests {
    private func gone(_ key: DocumentKey, _ vector: VersionVector) -> DocumentUpdate {
        DocumentUpdate(key: key, content: .gone(vector.encoded()))
    }

    private func vector(_ key: DocumentKey, _ replica: some Replica) throws -> VersionVector {
        try Document(decoding: try #require(try replica.state(key))).vector
    }

    @Test("what the server has forgotten is forgotten whole, and the next write takes a new actor")
    func forgotten() throws {
        try withPeer { replica, _ in
            let (one, two) = (try key("c", 1), try key("c", 2))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            try replica.execute("DELETE FROM c WHERE _id = 2")
            let actor = replica.actor
            try replica.acknowledge(actor, through: 2)
            let answer = gone(one, try vector(one, replica))
            #expect(try replica.receive(Reception(updates: [answer], settles: [one])) == .stored)
            let reaped = gone(two, try vector(two, replica))
            #expect(try replica.receive(Reception(updates: [reaped])) == .stored)
            #expect(try replica.everything().isEmpty)
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            #expect(replica.actor == actor)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(replica.actor != actor)
        }
    }

    @Test("a reaping is told of a tombstone: nothing else is forgotten, and nothing that is still needed")
    func reaped() throws {
        try withPeer { replica, _ in
            let (one, two, three) = (try key("c", 1), try key("c", 2), try key("c", 3))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 3})")
            try replica.execute("UPDATE c APPLY n PN_INCREMENT BY 1 WHERE _id = 2")
            try replica.execute("DELETE FROM c WHERE _id > 1")
            try replica.acknowledge(replica.actor, through: 4)
            let before = try replica.everything()
            for key in [one, two, three] {
                let told = gone(key, try vector(key, replica))
                #expect(try replica.receive(Reception(updates: [told])) == .stored)
            }
            #expect(try replica.everything() == before, "it lives, it has a counter, it has a seed")
            // A tombstone that the server's does not cover stays.
            try replica.execute("DELETE FROM c WHERE _id = 1")
            try replica.acknowledge(replica.actor, through: 5)
            let known = try vector(one, replica)
            let less = VersionVector(known.entries.map { .init(actor: $0.actor, time: $0.time - 1) })
            #expect(try replica.receive(Reception(updates: [gone(one, less)])) == .stored)
            #expect(try vector(one, replica) == known)
        }
    }

    @Test("a deletion that is written again takes what it names, and leaves what was written unseen")
    func deletedAnew() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            let old = try document("a", 1, by: 5, at: 10)
            _ = try replica.receive(
                Reception(updates: [DocumentUpdate(key: one, content: .state(old.encoded()))]))
            try replica.execute("UPDATE c SET b = 2")
            let written = try vector(one, replica)
            let anew = Document().raised(to: old.vector, by: Stamp(time: 20, actor: ActorID(9)))
            let state = DocumentUpdate(key: one, content: .state(anew.encoded()))
            #expect(try replica.receive(Reception(updates: [state], settles: [one])) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"b\":2}"])
            #expect(try vector(one, replica) == written.union(anew.vector))
        }
    }

    @Test(
        "a state that comes with the word to forget takes the place of what was listed",
        arguments: [false, true])
    func movedOn(_ hasMoved: Bool) throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            let (listed, anew) = (try document("a", 1, by: 5, at: 10), try document("b", 2, by: 7, at: 99))
            var here = listed
            if hasMoved { here.merge(try document("d", 3, by: 6, at: 11)) }
            _ = try replica.receive(
                Reception(updates: [DocumentUpdate(key: one, content: .state(here.encoded()))]))
            let state = DocumentUpdate(key: one, content: .state(anew.encoded()))
            try replica.stage([gone(one, listed.vector.union(anew.vector)), state], for: [7])
            #expect(try replica.receive(Reception(publishes: [7])) == .stored)
            // An answer alone tells of writes that came after the list.
            #expect(try replica.state(one) == (hasMoved ? joined(here, anew) : anew).encoded())
            #expect(try replica.wanted(limit: 9) == [one])
        }
    }

    @Test("what a list tells as gone, without a state, takes nothing that has come since: it is asked for")
    func movedOnUnmatched() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            let (listed, lost) = (try document("a", 1, by: 5, at: 10), try document("b", 2, by: 7, at: 9))
            var latest = listed
            latest.merge(try document("d", 3, by: 6, at: 11))
            let update = DocumentUpdate(key: one, content: .state(latest.encoded()))
            _ = try replica.receive(Reception(updates: [update]))
            // What was reaped went by another list, whose subscription has followed the document since.
            try replica.stage([gone(one, listed.vector.union(lost.vector))], for: [7])
            #expect(try replica.receive(Reception(publishes: [7])) == .stored)
            #expect(try replica.state(one) == latest.encoded())
            #expect(try replica.wanted(limit: 9) == [one])
            // An answer is of the document as it is.
            let answer = Reception(updates: [gone(one, listed.vector)], settles: [one])
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.rows("SELECT a, d FROM c").isEmpty)
            #expect(try replica.wanted(limit: 9) == [one], "it does not say all of what was here")
        }
    }

    @Test(
        "a state that lacks what is held and nobody followed is asked about, and what is gone goes",
        arguments: [nil, "SELECT * FROM c WHERE a > 5", "SELECT * FROM c"])
    func lacking(_ followed: String?) throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            replica.setLiveQueries(try followed.map { [try SubscriptionQuery(statement: $0)] } ?? [])
            func state(_ document: Document) -> DocumentUpdate {
                DocumentUpdate(key: one, content: .state(document.encoded()))
            }
            // Deleted and reaped at the server, and written anew.
            let (old, anew) = (try document("a", 1, by: 5, at: 10), try document("b", 2, by: 6, at: 20))
            _ = try replica.receive(Reception(updates: [state(old)]))
            let told = Mutex<[DocumentKey]>([])
            let listener = replica.addListener { commit in told.withLock { $0 += commit.wanted } }
            defer { replica.removeListener(listener) }
            let isAsked = followed != "SELECT * FROM c"
            #expect(try replica.receive(Reception(updates: [state(anew)])) == .stored)
            #expect(try replica.wanted(limit: 9) == (isAsked ? [one] : []))
            #expect(told.withLock { $0 } == (isAsked ? [one] : []))
            let named = try #require(try replica.versions(of: [one, try key("c", 2)]).first)
            let held = try #require(named.known)
            #expect(named.key == one && held == old.vector.union(anew.vector))
            // An answer that says nothing of it stands, and is not asked about again.
            var later = try document("d", 3, by: 7, at: 30)
            later.merge(anew)
            var answer = Reception(updates: [state(later)])
            answer.settles = [one]
            _ = try replica.receive(answer)
            #expect(try replica.wanted(limit: 9).isEmpty)
            #expect(try replica.rows("SELECT a, b, d FROM c") == ["{\"a\":1,\"b\":2,\"d\":3}"])
            answer.updates.insert(gone(one, held.union(later.vector)), at: 0)
            _ = try replica.receive(answer)
            #expect(try replica.state(one) == later.encoded())
        }
    }

    @Test(
        "a document that comes to where it was deleted, and lacks the deletion, is asked about",
        arguments: [false, true])
    func lackingDeletion(_ isAnew: Bool) throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            func state(_ document: Document) -> DocumentUpdate {
                DocumentUpdate(key: one, content: .state(document.encoded()))
            }
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c")])
            var deleted = DocumentEditor(
                document: try document("a", 1, by: 5, at: 10), stamp: Stamp(time: 15, actor: ActorID(5)))
            deleted.delete()
            _ = try replica.receive(Reception(updates: [state(deleted.document)]))
            // Nor is one that is known here of no concern: a restored log may have lost the deletion.
            let anew = try isAnew ? document("b", 2, by: 6, at: 20) : document("a", 1, by: 5, at: 10)
            _ = try replica.receive(Reception(updates: [state(anew)]))
            #expect(try replica.wanted(limit: 9) == [one])
            let held = try #require(try replica.versions(of: [one]).first?.known)
            var answer = Reception(updates: [gone(one, held), state(anew)])
            answer.settles = [one]
            _ = try replica.receive(answer)
            #expect(try replica.state(one) == anew.encoded())
            #expect(try replica.wanted(limit: 9).isEmpty)
        }
    }

    @Test("an answer that is older than what has come since takes its place, and is asked for again")
    func answeredLate() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            var (here, anew) = (try document("a", 1, by: 5, at: 10), try document("b", 2, by: 6, at: 20))
            here.merge(anew)
            var editor = DocumentEditor(document: anew, stamp: Stamp(time: 30, actor: ActorID(6)))
            try editor.set(["d"], .int(3))
            here.merge(editor.document)
            let update = DocumentUpdate(key: one, content: .state(here.encoded()))
            _ = try replica.receive(Reception(updates: [update]))
            func answer(_ state: Document) throws -> [DocumentKey] {
                let gone = gone(one, VersionVector([.init(actor: ActorID(5), time: 99)]).union(state.vector))
                let state = DocumentUpdate(key: one, content: .state(state.encoded()))
                _ = try replica.receive(Reception(updates: [gone, state], settles: [one]))
                return try replica.wanted(limit: 9)
            }
            #expect(try answer(anew) == [one])
            #expect(try replica.state(one) == anew.encoded())
            anew = editor.document
            #expect(try answer(anew).isEmpty)
            #expect(try replica.state(one) == anew.encoded())
            // Where nothing is there any more, the answer is of one part.
            _ = try replica.receive(Reception(updates: [gone(one, anew.vector)], settles: [one]))
            #expect(try replica.state(one) == nil)
        }
    }

    @Test("a document with writes that the server does not have waits for them to be moved")
    func returning() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            try replica.acknowledge(replica.actor, through: 1)
            let old = try vector(one, replica)
            try replica.execute("UPDATE c SET b = 2")
            let reception = Reception(updates: [gone(one, old)], settles: [one])
            #expect(try replica.receive(reception) == .returning([one]))
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"a\":1,\"b\":2}"])
            #expect(try replica.wanted(limit: 9) == [one])
            // The repair, with a server that has nothing of the document.
            let request = RepairRequest(admitted: [replica.actor: 1], refused: [], gone: [one], seen: nil)
            guard case .needs([one]) = try replica.repair(request) else {
                Issue.record("the server's state was not asked for")
                return
            }
            try replica.stageRepair([(key: one, state: nil)])
            guard case .repaired = try replica.repair(request) else {
                Issue.record("nothing was repaired")
                return
            }
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"b\":2}"])
            let moved = try replica.ownOperations(of: replica.actor, after: 0, maxBytes: 1_000)
            let operation = try Operation(decoding: try #require(moved.first).bytes)
            let delta = try Delta(decoding: operation.changes[0].delta, stamp: operation.stamp)
            #expect(delta.base.isEmpty)
        }
    }

    @Test("what is gone goes too where the writes were acknowledged before a repair could move them")
    func returningTooLate() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            let foreign = try document("b", 2, by: 5, at: 10)
            let update = DocumentUpdate(key: one, content: .state(foreign.encoded()))
            _ = try replica.receive(Reception(updates: [update]))
            let told = Mutex<[DocumentKey]>([])
            let listener = replica.addListener { commit in told.withLock { $0 += commit.wanted } }
            defer { replica.removeListener(listener) }
            let gone = gone(one, foreign.vector)
            #expect(try replica.receive(Reception(updates: [gone], settles: [one])) == .returning([one]))
            #expect(told.withLock { $0 } == [one])
            #expect(try replica.acknowledge(replica.actor, through: 1).isEmpty)
            #expect(try replica.wanted(limit: 9) == [one])
            // The answer that it is asked for once more.
            #expect(try replica.receive(Reception(updates: [gone], settles: [one])) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c").isEmpty)
            #expect(try replica.wanted(limit: 9) == [one])
        }
    }

    @Test("what one subscription's list has forgotten is asked for, since another one may match it")
    func goneByAnotherList() throws {
        try withPeer { replica, _ in
            let queries = try ["SELECT * FROM c", "SELECT * FROM c WHERE a = 1"].map {
                try SubscriptionQuery(statement: $0)
            }
            replica.setLiveQueries(queries)
            let documents = try [document("a", 1, by: 5, at: 10), document("a", 2, by: 5, at: 11)]
            let keys = try [key("c", 1), key("c", 2)]
            let states = zip(keys, documents).map {
                DocumentUpdate(key: $0, content: .state($1.encoded()))
            }
            _ = try replica.receive(Reception(updates: states))
            try replica.stage(zip(keys, documents).map { gone($0, $1.vector) }, for: queries[0].canonicalKey)
            let told = Mutex<[DocumentKey]>([])
            let listener = replica.addListener { commit in told.withLock { $0 += commit.wanted } }
            defer { replica.removeListener(listener) }
            #expect(try replica.receive(Reception(publishes: queries[0].canonicalKey)) == .stored)
            #expect(try replica.rows("SELECT * FROM c").isEmpty)
            #expect(told.withLock { $0 } == keys)
            // What was asked for, and is gone, is not asked for again.
            _ = try replica.receive(Reception(updates: [states[0]]))
            let answer = Reception(updates: [gone(keys[0], documents[0].vector)], settles: [keys[0]])
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.wanted(limit: 9) == [keys[1]])
        }
    }

    @Test("seeds that live here are known like any other content: a name that is covered asks for nothing")
    func outdatedSeeds() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'a': 1})")
            let named = try vector(one, replica)
            #expect(try replica.outdated([(one, named)]).isEmpty)
            try replica.execute("UPDATE c SET b = 2")
            #expect(try replica.outdated([(one, named)]).isEmpty)
            #expect(try replica.outdated([(one, vector(one, replica))]).isEmpty)
            // A deletion of them has a stamp, which is not here.
            let held = try Document(decoding: try #require(try replica.state(one)))
            let deleted = held.raised(to: VersionVector(), by: Stamp(time: .max >> 1, actor: ActorID(9)))
            #expect(try replica.outdated([(one, deleted.vector)]) == [one])
        }
    }

    @Test(
        "what is withheld from the server stays where the document it was written to is deleted anew")
    func withheldOnGone() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            let (old, anew) = (try document("a", 1, by: 5, at: 10), try document("b", 2, by: 6, at: 20))
            func state(_ document: Document) -> DocumentUpdate {
                DocumentUpdate(key: one, content: .state(document.encoded()))
            }
            _ = try replica.receive(Reception(updates: [state(old)]))
            replica.withhold(["c"])
            try replica.execute("UPDATE c SET mine = 3")
            try replica.execute("UPDATE c APPLY mine_too PN_INCREMENT BY 4")
            // That the server's states lack it is no reason to ask.
            var later = old
            later.merge(try document("d", 3, by: 5, at: 11))
            _ = try replica.receive(Reception(updates: [state(later)]))
            #expect(try replica.wanted(limit: 9).isEmpty)
            let raised = anew.raised(to: later.vector, by: Stamp(time: 21, actor: ActorID(9)))
            let answer = Reception(updates: [state(raised)], settles: [one])
            for _ in 0..<2 {
                #expect(try replica.receive(answer) == .stored)
                let shown = try replica.rows("SELECT a, b, mine, mine_too FROM c")
                #expect(shown == ["{\"b\":2,\"mine\":3,\"mine_too\":4}"])
                #expect(try replica.versions(of: [one]).map(\.known) == [raised.vector])
                #expect(try replica.wanted(limit: 9).isEmpty)
            }
        }
    }

    private func joined(_ rest: Document, _ written: Document) -> Document {
        var rest = rest
        rest.merge(written)
        return rest
    }
}
