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

    @Test("a document that is named as changed is asked for where its seeds live here: they may be reaped")
    func outdatedSeeds() throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'a': 1})")
            let named = try vector(one, replica)
            #expect(try replica.outdated([(one, named)]) == [one])
            try replica.execute("UPDATE c SET b = 2")
            let held = try vector(one, replica)
            #expect(try replica.outdated([(one, held)]) == [one])
            // What comes for that: they are.
            let written = try Document(decoding: try #require(try replica.state(one)))
            let state = joined(try #require(Document(restOf: named)), written)
            let update = DocumentUpdate(key: one, content: .state(state.encoded()))
            #expect(try replica.receive(Reception(updates: [update], settles: [one])) == .stored)
            #expect(try replica.outdated([(one, held)]).isEmpty)
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

    @Test("a seed that was reaped elsewhere is gone with a state of an equal vector, or an earlier one")
    func reapedSeed() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'a': 1})")
            let one = try key("c", 1)
            let held = try #require(try replica.read { try $0.state(of: one) })
            var deletion = DocumentEditor(
                document: try Document(decoding: held), stamp: Stamp(time: 9, actor: ActorID(7)))
            deletion.delete()
            let write = try document("b", 2, by: 5, at: 10)
            let reception = Reception(updates: [DocumentUpdate(key: one, content: .state(write.encoded()))])
            #expect(try replica.receive(reception) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"a\":1,\"b\":2}"])
            // What a server has that forgot the seed before the write came.
            var rest = try #require(deletion.document.reaped())
            rest.merge(write)
            let told = Reception(updates: [DocumentUpdate(key: one, content: .state(rest.encoded()))])
            #expect(try replica.receive(told) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"b\":2}"])
            #expect(try replica.read { try $0.state(of: one) } == rest.encoded())
        }
    }

    @Test("an answer to the first of two writes onto living seeds takes them away, though there is a second")
    func reapedSeedEarlier() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'a': 1})")
            let one = try key("c", 1)
            let rest = try #require(Document(restOf: try vector(one, replica)))
            try replica.execute("UPDATE c SET b = 2")
            let first = try Document(decoding: try #require(try replica.state(one)))
            try replica.execute("UPDATE c SET d = 3")
            let joined = joined(rest, first)
            let answer = DocumentUpdate(key: one, content: .state(joined.encoded()))
            #expect(try replica.receive(Reception(updates: [answer])) == .stored)
            #expect(try replica.rows("SELECT a, b, d FROM c") == ["{\"b\":2,\"d\":3}"])
        }
    }

    private func joined(_ rest: Document, _ written: Document) -> Document {
        var rest = rest
        rest.merge(written)
        return rest
    }

    @Test("staged pages stay for a later session only with a token, and only while somebody asks for them")
    func resumption() throws {
        try withPeer { replica, _ in
            let update = DocumentUpdate(
                key: try key("c", 1), content: .state(try document("a", 1, by: 5, at: 10).encoded()))
            for subscription: [UInt8] in [[1], [2], [3]] {
                try replica.stage(
                    [update], for: subscription, resume: subscription == [3] ? nil : [9] + subscription)
            }
            try replica.stage([update], for: [1], resume: nil)
            try replica.discardStaged(but: [[1], [3]])
            #expect(try [[1], [2], [3]].map { try replica.resumption(of: $0) } == [[9, 1], nil, nil])
            let log = TestLog()
            let reception = Reception(
                cursors: [([1], log.position(3))], publishes: [1], rights: [7])
            #expect(try replica.receive(reception) == .stored)
            #expect(try replica.rows("SELECT a FROM c") == ["{\"a\":1}"])
            #expect(try replica.resumption(of: [1]) == nil)
            #expect(try replica.rights(of: [1]) == [7])
        }
    }

    @Test("what was staged of a log that has lost its end is gone, and until then its position was seen")
    func stagedOfAnotherLog() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            let update = DocumentUpdate(
                key: try key("c", 1), content: .state(try document("a", 1, by: 5, at: 10).encoded()))
            try replica.noteSeen(log.position(3), replaces: false)
            try replica.stage([update], for: [1], resume: [9], seen: log.position(7))
            #expect(try replica.seenPosition() == log.position(7))
            try replica.stage([], for: [1], seen: log.position(6))
            #expect(try replica.seenPosition() == log.position(7))
            try replica.noteSeen(log.position(4), replaces: true)
            #expect(try replica.resumption(of: [1]) == nil)
            _ = try replica.receive(Reception(cursors: [([1], log.position(4))], publishes: [1]))
            #expect(try replica.rows("SELECT a FROM c").isEmpty)
        }
    }

    @Test("an answer that did not come is asked for, where no subscription brings it")
    func unanswered() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c")])
            for number in 1...4 {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                try replica.execute("INSERT INTO d DOCUMENTS ({'_id': \(number)})")
            }
            let actor = replica.actor
            #expect(try replica.acknowledge(actor, through: 2, offset: 10) == [])
            #expect(try replica.acknowledge(actor, through: 4, offset: 20) == [])
            #expect(try replica.acknowledge(actor, through: 6, offset: 0) == [])
            // Nobody will answer these any more.
            #expect(try replica.acknowledge(actor, through: 8, offset: nil) == [try key("d", 4)])
            #expect(try replica.receive(Reception(streamed: 10)) == .stored)
            #expect(try replica.wantUnanswered(through: 19) == [])
            #expect(try replica.wantUnanswered(through: .max) == [try key("d", 2)])
            #expect(try replica.wanted(limit: 9) == [try key("d", 2), try key("d", 4)])
        }
    }

    @Test("a collection that may not be read any more is not shown, and its writes are still uploaded")
    func hidden() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            _ = try replica.receive(Reception(cursors: [([1], log.position(3))], publishes: [1]))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            try replica.stage([], for: [2], resume: [1], hiding: [try key("c", 2)])
            #expect(try replica.rows("SELECT _id FROM c") == ["{\"_id\":1}"])
            try replica.stage([], for: [5], resume: [1])
            _ = try replica.receive(Reception(cursors: [([6], log.position(3))], publishes: [6]))
            let live = try SubscriptionQuery(statement: "SELECT * FROM d")
            replica.setLiveQueries([live])
            _ = try replica.receive(
                Reception(cursors: [(live.canonicalKey, log.position(3))], publishes: live.canonicalKey))
            try replica.hide(collection: "c", subscription: [1])
            #expect(try replica.cursor(of: live.canonicalKey) == log.position(3))
            // Nobody has registered these now, and they may have brought documents of the collection.
            #expect(try replica.resumption(of: [5]) == nil)
            #expect(try replica.cursor(of: [6]) == nil)
            #expect(try replica.rows("SELECT _id FROM c").isEmpty)
            #expect(try replica.rows("SELECT _id FROM d").count == 1)
            #expect(try replica.cursor(of: [1]) == nil)
            #expect(try replica.ownOperations(of: replica.actor, after: 0, maxBytes: 9_999).count == 2)
        }
    }

    @Test("cursors say nothing any more behind what was hidden, or when the server asks what is held")
    func distrusted() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            let queries = try ["SELECT * FROM c WHERE n = 1", "SELECT * FROM c", "SELECT * FROM d"].map {
                try SubscriptionQuery(statement: $0)
            }
            let keys = queries.map(\.canonicalKey)
            replica.setLiveQueries(queries)
            func catchUp() throws {
                for key in keys {
                    _ = try replica.receive(
                        Reception(cursors: [(key, log.position(3))], publishes: key, rights: [7]))
                }
            }
            func rights() throws -> [[UInt8]?] { try keys.map { try replica.rights(of: $0) } }
            try catchUp()
            // Of a collection.
            try replica.hide(collection: "c", subscription: keys[0])
            #expect(try rights() == [nil, [], [7]])
            #expect(try replica.cursor(of: keys[1]) == log.position(3))
            // When the server asks.
            try catchUp()
            try replica.stage([], for: keys[1], resume: [1])
            try replica.startOver(keys[1])
            #expect(try rights() == [[7], [], [7]])
            #expect(try replica.resumption(of: keys[1]) == nil)
            // Before the session has got there.
            try catchUp()
            var stream = Reception(cursors: keys.map { ($0, log.position(4)) })
            stream.distrusts = [keys[0]]
            _ = try replica.receive(stream)
            #expect(try rights() == [[], [7], [7]])
            #expect(try replica.cursor(of: keys[0]) == log.position(4))
            // Of single documents, for those that nobody has registered: the others are asked.
            replica.setLiveQueries([queries[0]])
            try replica.stage([], for: keys[0], hiding: [try key("c", 1)])
            #expect(try keys.map { try replica.cursor(of: $0) == nil } == [false, true, true])
        }
    }
}

@Suite("What a subscriber holds, beside the fold")
struct HeldTests {
    /// A fold of these statements, each an operation, and its writer.
    private func fold(_ folder: URL, _ statements: [String]) throws -> (Materialization, PeerReplica) {
        let writer = try open(folder.appendingPathComponent("writer"))
        let fold = try openFold(folder.appendingPathComponent("fold"))
        var log = TestLog()
        for statement in statements { log.append(try #require(try writer.execute(statement).operation)) }
        _ = try fold.fold(log.items())
        return (fold, writer)
    }

    private func compare(
        _ fold: Materialization, _ held: [(Value, VersionVector)], unmatched: Set<DocumentID> = [],
        after: Value? = nil, isLast: Bool = true,
        rows: Int = 100, mayWrite: Bool = true, mayRead: (DocumentKey) -> Bool = { _ in true }
    ) throws -> HoldingsAnswer {
        let candidates = try held.map { item in
            var version = DocumentVersion(try key("c", item.0), item.1)
            version.isUnmatched = unmatched.contains(version.id)
            return version
        }
        let page = HoldingsPage(
            candidates: candidates, after: try after.map { try DocumentID($0) }, isLast: isLast)
        let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE n > 0")
        return try fold.read { transaction in
            let found = try transaction.compare(
                page, of: query, bytes: 1_000_000, rows: rows, mayWrite: { _ in mayWrite },
                mayRead: mayRead)
            // Asked for one by one, the same is said of them.
            let readable = candidates.filter { mayRead($0.key) && $0.id <= found.through ?? $0.id }
            let single = try transaction.lost(of: readable, mayWrite: { _ in mayWrite })
            for (one, all) in [(single.told, found.gone), (single.lost, found.lost)] {
                let sorted = one.sorted { $0.key.id < $1.key.id }
                #expect(sorted.map(\.id) == all.map(\.id) && sorted.map(\.vector) == all.map(\.vector))
            }
            return found
        }
    }

    @Test("what was written beside the subscriptions waits for its answer, and nothing else does")
    func besideSubscriptions() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c")])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 2})")
            _ = try replica.acknowledge(replica.actor, through: 2, offset: 9)
            #expect(try replica.wantUnanswered(through: 9) == [try key("d", 2)])
        }
    }

    @Test("what was staged is forgotten with an eviction, but for live subscriptions")
    func evictedWhileStaged() throws {
        try withPeer { replica, _ in
            let live = try SubscriptionQuery(statement: "SELECT * FROM c")
            replica.setLiveQueries([live])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            for key in [live.canonicalKey, [5]] { try replica.stage([], for: key, resume: [1]) }
            try replica.execute("EVICT FROM c WHERE _id = 1")
            #expect(try replica.resumption(of: live.canonicalKey) == [1])
            #expect(try replica.resumption(of: [5]) == nil)
        }
    }

    @Test("seeds that were reaped are lost for a subscriber that holds them alive, under the same vector")
    func reapedSeeds() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            let seed = "INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'n': 1})"
            log.append(try #require(try writer.execute(seed).operation))
            let seeded = try Document(decoding: try #require(try writer.state(key("c", 1))))
            let living = seeded.vector
            log.append(try #require(try writer.execute("DELETE FROM c").operation))
            let deleted = try Document(decoding: try #require(try writer.state(key("c", 1)))).vector
            log.append(
                Operation(
                    actor: ActorID(9), sequence: 1, timestamp: 1 << 60,
                    changes: [
                        Operation.Change(
                            collection: "c", id: try key("c", 1).id, delta: ReapingChange.encode(at: deleted))
                    ]))
            let fold = try openFold(folder.appendingPathComponent("fold"))
            _ = try fold.fold(log.items())
            let found = try compare(fold, [(.int(1), living)])
            #expect(found.lost.map(\.id) == [try DocumentID(.int(1))])
            #expect(found.lost.map(\.known) == [living])
            #expect(found.documents.isEmpty && found.gone.isEmpty)
            // A write onto living seeds makes what is left of them a document again, of an equal vector.
            let stamp = Stamp(time: 1 << 61, actor: ActorID(8))
            var editor = DocumentEditor(document: seeded, stamp: stamp)
            try editor.set(["b"], .int(2))
            let change = Operation.Change(
                collection: "c", id: try key("c", 1).id,
                delta: try #require(editor.pending.delta(stamp: stamp)).encoded())
            log.append(
                Operation(actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: [change]))
            let later = try openFold(folder.appendingPathComponent("later"))
            _ = try later.fold(log.items())
            let again = try compare(later, [(.int(1), editor.document.vector)])
            #expect(again.gone.isEmpty)
            #expect(again.documents.map(\.id) == [try DocumentID(.int(1))])
            let sent = try #require(again.documents.first?.state)
            #expect(try Document(decoding: sent).vector == editor.document.vector)
        }
    }

    @Test("what the log has lost is gone for a subscriber that may not give it back")
    func lost() throws {
        try withTemporaryDirectory { folder in
            let (fold, _) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let known = try Document(decoding: try #require(try fold.state(try key("c", 1)))).vector
            let later = VersionVector([.init(actor: ActorID(77), time: 1 << 60)])
            let held: [(Value, VersionVector)] = [(.int(1), known.union(later)), (.int(2), later)]
            let giving = try compare(fold, held)
            #expect(giving.gone.isEmpty && giving.documents.isEmpty)
            let taking = try compare(fold, held, mayWrite: false)
            #expect(taking.gone.map(\.id) == [try DocumentID(.int(1)), try DocumentID(.int(2))])
            #expect(taking.gone.map(\.known) == [known.union(later), later])
            #expect(taking.documents.map(\.id) == [try DocumentID(.int(1))])
            #expect(try compare(fold, [(.int(1), known)], mayWrite: false).gone.isEmpty)
        }
    }

    @Test(
        "what does not match at the subscriber is told as gone or hidden only, unless it matches here"
    )
    func unmatched() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder,
                [
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1})", "UPDATE c SET n = -1 WHERE _id = 1",
                    "UPDATE c SET n = 2 WHERE _id = 2",
                    "UPDATE c SET n = -1 WHERE _id = 3",
                ])
            let lost = VersionVector([.init(actor: writer.actor, time: 1)])
            let first = lost
            let held: [(Value, VersionVector)] = [(1, first), (2, first), (3, first), (4, lost)]
            let ids = try (1...4).map { try DocumentID(.int(Int64($0))) }
            #expect(try compare(fold, held).documents.map(\.id) == Array(ids[0..<3]))
            let found = try compare(fold, held, unmatched: [ids[0], ids[1], ids[3]])
            #expect(found.documents.map(\.id) == [ids[1], ids[2]])
            #expect(found.lost.map(\.id) == [ids[3]])
            #expect(try compare(fold, held, unmatched: Set(ids)) { _ in false }.hidden.map(\.id) == ids)
            // Gone here, and anew: what takes its place is not the subscriber's concern.
            let other = VersionVector([
                .init(actor: writer.actor, time: 1), .init(actor: ActorID(7), time: 1),
            ])
            let anew = try compare(fold, [(1, other)], unmatched: [ids[0]], mayWrite: false)
            #expect(anew.gone.map(\.id) == [ids[0]])
            #expect(anew.documents.map(\.id) == [ids[1]])
        }
    }

    @Test("what is held is not sent again; what is new, newer, left or gone is told")
    func comparison() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder,
                [
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1})",
                    "INSERT INTO c DOCUMENTS ({'_id': 4, 'n': 0}), ({'_id': 5, 'n': 1})",
                    "UPDATE c SET n = -1 WHERE _id = 3",
                ])
            let vectors = try (1...5).map { id -> VersionVector in
                let key = try key("c", .int(Int64(id)))
                return try Document(decoding: try #require(try fold.state(key))).vector
            }
            let first = VersionVector([.init(actor: writer.actor, time: vectors[0].entries[0].time)])
            let found = try compare(fold, [(1, vectors[0]), (3, first), (7, first)])
            #expect(found.documents.map(\.id) == [try DocumentID(2), try DocumentID(3), try DocumentID(5)])
            #expect(found.lost.map(\.id) == [try DocumentID(7)])
            #expect(found.lost.map { $0.known?.entries.count } == [1])
            #expect(found.hidden.isEmpty && found.gone.isEmpty)
        }
    }

    @Test("writes that the log has not seen are not gone, and what was reaped and written again is both")
    func unseen() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let ours = try Document(decoding: try #require(try fold.state(try key("c", 1)))).vector
            let time = ours.entries[0].time
            let unseen = VersionVector([.init(actor: writer.actor, time: time + 1)])
            let foreign = VersionVector([.init(actor: ActorID(9), time: 1)])
            let found = try compare(fold, [(1, ours.union(foreign)), (2, unseen), (3, foreign)])
            #expect(found.documents.isEmpty)
            #expect(found.gone.isEmpty && found.lost.isEmpty)
            // Of this writer's the fold has something later elsewhere, so what it held here was removed.
            _ = try fold.fold([])
            let again = try compare(fold, [(1, VersionVector([.init(actor: writer.actor, time: time - 1)]))])
            #expect(again.documents.map(\.id) == [try DocumentID(1)])
            #expect(again.gone.isEmpty && again.lost.isEmpty)
        }
    }

    @Test(
        "nothing counts as lost where a writer goes on: what its later write rests on says which stamps are")
    func goesOn() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})"])
            let lost = VersionVector([.init(actor: writer.actor, time: 1)])
            let later = VersionVector([.init(actor: ActorID(7), time: 9)])
            #expect(try compare(fold, [(.int(2), lost)]).lost.map(\.known) == [lost])
            let both = try compare(fold, [(.int(2), lost.union(later))])
            #expect(both.lost.isEmpty && both.gone.isEmpty && both.documents.count == 1)
            try fold.read { transaction in
                var parts = LostParts(transaction)
                let most = try parts.most(of: lost.union(later), here: VersionVector())
                let none = try parts.most(of: lost, here: lost)
                #expect(most == lost && none.isEmpty)
            }
        }
    }

    @Test("ids that may not be read are named back to who holds them, and to nobody else")
    func hidden() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder, ["INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})"])
            let vector = VersionVector([.init(actor: writer.actor, time: 1)])
            let found = try compare(fold, [(1, vector), (9, vector)]) { _ in false }
            #expect(found.documents.isEmpty && found.gone.isEmpty)
            #expect(found.hidden.map(\.id) == [try DocumentID(1), try DocumentID(9)])
        }
    }

    @Test("a long range is answered in parts, none of it twice and none left out")
    func parts() throws {
        try withTemporaryDirectory { folder in
            let (fold, writer) = try fold(
                folder, (1...9).map { "INSERT INTO c DOCUMENTS ({'_id': \($0), 'n': 1})" })
            let old = VersionVector([.init(actor: writer.actor, time: 1)])
            var held: [(Value, VersionVector)] = [(3, old), (20, old), (21, old)]
            var sent: [DocumentID] = []
            var lost: [DocumentID] = []
            var after: Value?
            for _ in 0..<6 {
                let found = try compare(fold, held, after: after, rows: 2)
                sent += found.documents.map(\.id)
                lost += found.lost.map(\.id)
                guard let through = found.through else { break }
                after = through.value
                held.removeAll { item in (try? DocumentID(item.0)).map { $0 <= through } ?? true }
            }
            #expect(try sent == (1...9).map { try DocumentID(.int($0)) })
            #expect(try lost == [20, 21].map { try DocumentID(.int($0)) })
        }
    }

    @Test("a store names what it shows as matching, by id, without tombstones")
    func names() throws {
        try withPeer { replica, _ in
            try replica.execute(
                "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 1}), ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 0})")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 4, 'n': 1})")
            try replica.execute("DELETE FROM c WHERE _id = 4")
            let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE n > 0")
            let page = try replica.held(of: query, after: nil)
            #expect(page.candidates.map(\.id) == [try DocumentID(1), try DocumentID(3)])
            #expect(page.isLast)
            #expect(try replica.held(of: query, after: try DocumentID(1)).candidates.count == 1)
            let all = try replica.held(of: query, after: nil, isWhole: true)
            #expect(try all.candidates.map(\.id) == (1...3).map { try DocumentID(.int($0)) })
            #expect(all.candidates.map(\.isUnmatched) == [false, true, false])
        }
    }
}
