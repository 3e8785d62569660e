import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("A store that is opened again")
struct ResumptionTests {
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
            // A collection is hidden.
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
            // Single documents are hidden, for those that nobody has registered: the others are asked.
            replica.setLiveQueries([queries[0]])
            try replica.stage([], for: keys[0], hiding: [try key("c", 1)])
            #expect(try keys.map { try replica.cursor(of: $0) == nil } == [false, true, true])
        }
    }
}
