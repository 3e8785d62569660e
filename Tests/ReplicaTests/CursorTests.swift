import CRDT
import DQL
import Exchange
import TestSupport
import Testing

@testable import Replica

@Suite("Cursors and acknowledgements")
struct CursorTests {
    @Test("a store knows its own operations by sequence and content, and no others")
    func ownHistory() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            let bytes = try replica.ownOperations(of: replica.actor, after: 0, maxBytes: 1 << 20).map(\.bytes)
            func standing(_ sequence: SequenceNumber, _ hash: UInt64) throws -> HistoryComparison.State? {
                try replica.relation(of: replica.actor, sequence: sequence, hash: hash)
            }
            #expect(try standing(0, 0) == .open)
            #expect(try standing(1, hash64(bytes[0])) == .open)
            #expect(try standing(1, hash64(bytes[1])) == .forked)
            #expect(try standing(3, hash64(bytes[1])) == .forked)
        }
    }

    @Test("a cursor moves forward within its log, and back or to another log only where a catch-up ends")
    func advancing() throws {
        try withPeer { replica, _ in
            let (log, other) = (TestLog(1), TestLog(2))
            func receive(_ position: LogPosition, publishing: Bool = false) throws -> LogPosition? {
                let reception = Reception(
                    cursors: [(key: [1], position: position)], publishes: publishing ? [1] : nil)
                #expect(try replica.receive(reception) == .stored)
                return try replica.cursor(of: [1])
            }
            #expect(try receive(log.position(5)) == log.position(5))
            #expect(try receive(log.position(9)) == log.position(9))
            #expect(try receive(log.position(4)) == log.position(9))
            #expect(try receive(other.position(20)) == log.position(9))
            #expect(try receive(other.position(3), publishing: true) == other.position(3))
            #expect(try receive(other.position(2), publishing: true) == other.position(2))
            #expect(try replica.cursor(of: [2]) == nil)
            try replica.forgetCursor(of: [1])
            #expect(try replica.cursor(of: [1]) == nil)
            #expect(replica.head == 0)
        }
    }

    @Test("an acknowledgement never retreats and never reaches beyond what this store wrote")
    func acknowledging() throws {
        try withPeer { replica, _ in
            #expect(try replica.acknowledgedCommit() == 0)
            for number in 1...3 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            let actor = replica.actor
            #expect(try replica.acknowledgedCommit() == 0)
            try replica.acknowledge(actor, through: 2)
            #expect(try replica.acknowledgedCommit() == 2)
            try replica.acknowledge(actor, through: 1)
            #expect(try replica.acknowledgedCommit() == 2)
            try replica.acknowledge(actor, through: 1_000)
            try replica.acknowledge(ActorID(12_345), through: 7)
            #expect(try replica.acknowledgedCommit() == 3)
            #expect(try replica.ownActors().map(\.acknowledged) == [3])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 4})")
            #expect(try replica.acknowledgedCommit() == 3)
        }
    }

    @Test("what the server holds is noted with what it sends, and even where a base is missing")
    func acknowledgedWithReception() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c")])
            for number in 1...3 { try replica.execute("INSERT INTO d DOCUMENTS ({'_id': \(number)})") }
            let actor = replica.actor
            var passed = Reception(streamed: 10)
            passed.acknowledges = [OwnAcknowledgement(actor: actor, through: 1, offset: 10)]
            #expect(try replica.receive(passed) == .stored)
            #expect(try replica.acknowledgedCommit() == 1)
            #expect(try replica.wantUnanswered(through: .max) == [], "the stream has brought the answer")

            var coming = Reception(streamed: 11)
            coming.acknowledges = [OwnAcknowledgement(actor: actor, through: 2, offset: 12)]
            #expect(try replica.receive(coming) == .stored)
            #expect(try replica.wantUnanswered(through: .max) == [try key("d", 2)])

            let rest = try document("a", 1, by: 5, at: 10)
            var editor = DocumentEditor(document: rest, stamp: Stamp(time: 11, actor: ActorID(5)))
            try editor.set(["a"], .int(2))
            let delta = try #require(editor.pending.delta(stamp: Stamp(time: 11, actor: ActorID(5))))
            var lacking = Reception(
                updates: [
                    DocumentUpdate(
                        key: try key("c", 1),
                        content: .delta(Stamp(time: 11, actor: ActorID(5)), delta.encoded()))
                ], streamed: 13)
            lacking.acknowledges = [OwnAcknowledgement(actor: actor, through: 3, offset: 13)]
            #expect(try replica.receive(lacking) == .wanting([try key("c", 1)]))
            #expect(try replica.acknowledgedCommit() == 3)
            #expect(try replica.wantUnanswered(through: .max) == [try key("d", 3)])
        }
    }

    @Test(
        "with several own actors the first commit that is missing on the server counts; received ones do not")
    func severalActors() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let first = replica.actor
            try replica.renewActor(ActorID(1))
            #expect(replica.actor == first)
            try replica.renewActor(first)
            let second = replica.actor
            #expect(second != first)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            let state = DocumentUpdate(
                key: try key("d", 1), content: .state(try document("a", 1, by: 5, at: 10).encoded()))
            #expect(try replica.receive(Reception(updates: [state])) == .stored)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
            #expect(try replica.ownActors().map(\.actor) == [first, second])
            try replica.acknowledge(second, through: 2)
            #expect(try replica.acknowledgedCommit() == 0)
            try replica.acknowledge(first, through: 1)
            #expect(try replica.acknowledgedCommit() == 4)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 4})")
            #expect(try replica.acknowledgedCommit() == 4)
        }
    }

    @Test("own operations come in order, at least one however small the bound, with the hash of the last")
    func uploading() throws {
        try withPeer { replica, _ in
            let written = try (1...5).map { number in
                try #require(try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})").operation)
                    .encoded()
            }
            let actor = replica.actor
            #expect(try replica.ownOperations(of: actor, after: 2, maxBytes: 1).map(\.sequence) == [3])
            #expect(
                try replica.ownOperations(of: actor, after: 0, maxBytes: 1_000_000).map(\.bytes) == written)
            #expect(try replica.ownOperations(of: actor, after: 5, maxBytes: 1_000).isEmpty)
            #expect(try replica.ownOperations(of: ActorID(1), after: 0, maxBytes: 1_000).isEmpty)
            let expected = try #require(written.last).withUnsafeBytes { hash64($0) }
            #expect(
                try replica.ownActors() == [
                    OwnActor(actor: actor, sequence: 5, hash: expected, acknowledged: 0)
                ])
        }
    }

    @Test("of a server's candidates those are outdated that are here with less than the server has")
    func outdated() throws {
        try withPeer { replica, _ in
            let vector = VersionVector([.init(actor: ActorID(5), time: 10)])
            let newer = VersionVector([.init(actor: ActorID(5), time: 11)])
            let state = DocumentUpdate(
                key: try key("c", 1), content: .state(try document("a", 1, by: 5, at: 10).encoded()))
            #expect(try replica.receive(Reception(updates: [state])) == .stored)
            let candidates = [(try key("c", 1), vector), (try key("c", 1), newer), (try key("c", 2), newer)]
            #expect(try replica.outdated(candidates) == [try key("c", 1)])
        }
    }
}
