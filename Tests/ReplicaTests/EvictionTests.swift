import CRDT
import DQL
import Exchange
import Synchronization
import TestSupport
import Testing

@testable import Replica

@Suite("Eviction")
struct EvictionTests {
    @Test("an evicted document is gone without a tombstone, and nothing is told to anybody")
    func noTombstone() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let result = try replica.execute("EVICT FROM c WHERE _id = 1")
            #expect(result.operation == nil)
            #expect(result.commit == 1)
            #expect(try replica.state(try key("c", 1)) == nil)
            #expect(try replica.ownActors().map(\.sequence) == [1])
            #expect(try replica.wanted(limit: 10) == [])
        }
    }

    @Test("a new actor is taken only when an evicted document is written again")
    func newActor() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let actor = replica.actor
            try replica.execute("EVICT FROM c WHERE _id = 1")
            try replica.execute("UPDATE c SET a = 1 WHERE _id = 2")
            #expect(replica.actor == actor)
            let again = try #require(try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").operation)
            #expect(again.actor != actor)
            #expect(again.sequence == 1)
            try replica.execute("UPDATE c SET a = 2")
            #expect(replica.actor == again.actor)
        }
    }

    @Test("the transaction that meets an evicted document runs again from its beginning, once")
    func runsAgain() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("EVICT FROM c")
            let insert = try PreparedStatement("INSERT INTO c DOCUMENTS ({'_id': :id})")
            var runs = 0
            let result = try replica.write { transaction in
                runs += 1
                for id in [2, 1] {
                    _ = try insert.execute(
                        in: transaction, arguments: arguments(("id", .int(Int64(id)))),
                        idGenerator: { preconditionFailure("ids are given") })
                }
            }
            #expect(runs == 2)
            #expect(result.operation?.changes.count == 2)
            #expect(result.operation?.actor == replica.actor)
            #expect(result.commit == 2)
        }
    }

    @Test("what an actor wrote before it was evicted is missed also when two others have written since")
    func evictedTwoActorsAgo() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            try replica.execute("EVICT FROM c")
            var actors: Set<ActorID> = []
            for _ in 0..<3 {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                try replica.execute("EVICT FROM c")
                actors.insert(replica.actor)
            }
            #expect(actors.count == 3)
            let one = try key("c", 1)
            let older = try document("b", 2, by: 5, at: 10)
            let update = DocumentUpdate(key: one, content: .state(older.encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            #expect(try replica.wanted(limit: 9) == [one])
        }
    }

    @Test("a document that comes back without this store's own write is not written as the old actor either")
    func comesBackOlder() throws {
        try withPeer { replica, _ in
            let base = try document("a", 1, by: 5, at: 10)
            let update = DocumentUpdate(key: try key("c", 1), content: .state(base.encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            let first = try #require(try replica.execute("UPDATE c SET b = 2").operation)
            try replica.execute("EVICT FROM c")
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            let second = try #require(try replica.execute("UPDATE c SET d = 3").operation)
            #expect(second.actor != first.actor)
            // Whoever gets both, in the order of the log, ends with both.
            var elsewhere = base
            for operation in [first, second] {
                let delta = try Delta(decoding: operation.changes[0].delta, stamp: operation.stamp)
                #expect(elsewhere.apply(delta) == .applied)
            }
            let settled = DocumentUpdate(key: try key("c", 1), content: .state(elsewhere.encoded()))
            #expect(try replica.receive(Reception(updates: [settled])) == .stored)
            #expect(try replica.rows("SELECT a, b, d FROM c") == ["{\"a\":1,\"b\":2,\"d\":3}"])
        }
    }

    @Test("a document edited, evicted and edited again by one transaction holds everything its delta holds")
    func withinOneTransaction() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("one"))
            let reader = try open(folder.appendingPathComponent("two"), TestEnvironment(seed: 2))
            let statements = try [
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})", "EVICT FROM c",
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'b': 2})",
            ].map { try PreparedStatement($0) }
            let result = try replica.write { transaction in
                for statement in statements {
                    _ = try statement.execute(
                        in: transaction, idGenerator: { preconditionFailure("ids are given") })
                }
            }
            let operation = try #require(result.operation)
            #expect(try reader.receive(Reception(updates: TestLog.deltas(of: operation))) == .stored)
            #expect(try reader.everything() == replica.everything())
            #expect(try replica.execute("UPDATE c SET e = 1").operation?.actor == operation.actor)
        }
    }

    @Test(
        "a server's change of a document that is not here asks for it, also one on nothing"
    )
    func changeOfEvicted() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("one"))
            let reader = try open(folder.appendingPathComponent("two"), TestEnvironment(seed: 2))
            let change = try #require(try writer.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").operation)
            // Another device had written the document too, and this one has evicted it since.
            var whole = try document("a", 1, by: 5, at: 10)
            whole.merge(try Document(decoding: try #require(try writer.state(key("c", 1)))))
            var reception = Reception(updates: TestLog.deltas(of: change))
            reception.presumesHeld = true
            #expect(try reader.receive(reception) == .wanting([try key("c", 1)]))
            #expect(try reader.wanted(limit: 10) == [try key("c", 1)])
            let state = DocumentUpdate(key: try key("c", 1), content: .state(whole.encoded()))
            reception.updates.insert(state, at: 0)
            #expect(try reader.receive(reception) == .stored)
            #expect(try reader.state(key("c", 1)) == whole.encoded())
        }
    }

    /// A store that has made a document match no live query and evicted it, and whose server refuses the
    /// last of its writes.
    private func refused(_ writes: [String], query: String) throws -> (
        wanted: [DocumentKey], told: [DocumentKey]
    ) {
        var result: (wanted: [DocumentKey], told: [DocumentKey]) = ([], [])
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: query)])
            let server = try document("a", 1, by: 5, at: 10).encoded()
            let update = DocumentUpdate(key: try key("c", 1), content: .state(server))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            for write in writes { try replica.execute(write) }
            try replica.execute("EVICT FROM c")
            #expect(try replica.wanted(limit: 10).isEmpty)
            let refusal = Refusal(
                actor: replica.actor, sequence: SequenceNumber(UInt64(writes.count)),
                error: SyncError(.writeNotGranted, ""))
            let request = RepairRequest(
                admitted: [:], closed: [replica.actor], refused: [refusal], seen: nil)
            guard case .needs = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            try replica.stageRepair([(try key("c", 1), server)])
            let told = Mutex<[DocumentKey]>([])
            let listener = replica.addListener { commit in told.withLock { $0 += commit.wanted } }
            guard case .repaired = try replica.repair(request) else {
                Issue.record("not repaired")
                return
            }
            replica.removeListener(listener)
            #expect(try replica.state(key("c", 1)) == nil)
            result = (try replica.wanted(limit: 10), told.withLock { $0 })
        }
        return result
    }

    @Test(
        "an evicted document that the server still shows as matching, for the write was refused, is asked for"
    )
    func refusedAndEvicted() throws {
        let matching = try refused(["UPDATE c SET a = 2"], query: "SELECT * FROM c WHERE a = 1")
        #expect(try matching.wanted == [key("c", 1)])
        #expect(try matching.told == [key("c", 1)])
        // By a write that moves, on top of what the server has.
        let moved = try refused(
            ["UPDATE c SET b = 1", "UPDATE c SET b = 2"], query: "SELECT * FROM c WHERE b = 1")
        #expect(try moved.wanted == [key("c", 1)])
        let other = try refused(["UPDATE c SET a = 2"], query: "SELECT * FROM c WHERE a = 3")
        #expect(other.wanted.isEmpty)
    }

    /// A page of a catch-up, or an answer, that was on its way when its receiver wrote and evicted.
    private enum Arrival: CaseIterable { case first, page, stream, answer }

    @Test(
        "an evicted document that comes without what was written here last is asked for, once",
        arguments: Arrival.allCases)
    private func cameOlder(arrival: Arrival) throws {
        try withPeer { replica, _ in
            let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE a = 1")
            replica.setLiveQueries([query])
            let evicted = try key("c", 1)
            var server = try document("a", 1, by: 5, at: 10)
            // More than what one insertion leaves.
            if arrival == .answer { server.merge(try document("b", 1, by: 6, at: 11)) }
            let older = DocumentUpdate(key: evicted, content: .state(server.encoded()))
            #expect(try replica.receive(Reception(updates: [older])) == .stored)
            if arrival != .first { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'a': 2})") }
            let written = try #require(try replica.execute("UPDATE c SET a = 3 WHERE _id = 1").operation)
            let delta = try Delta(decoding: written.changes[0].delta, stamp: written.stamp)
            #expect(server.apply(delta) == .applied)
            try replica.execute("EVICT FROM c WHERE _id = 1")
            #expect(try replica.wanted(limit: 10).isEmpty)
            let told = Mutex<[DocumentKey]>([])
            let listener = replica.addListener { commit in told.withLock { $0 += commit.wanted } }
            defer { replica.removeListener(listener) }
            switch arrival {
            case .first, .page:
                try replica.stage([older], for: query.canonicalKey)
                _ = try replica.receive(Reception(publishes: query.canonicalKey))
            case .stream: _ = try replica.receive(Reception(updates: [older]))
            case .answer: _ = try replica.receive(Reception(updates: [older], settles: [evicted]))
            }
            #expect(try replica.wanted(limit: 10) == [evicted])
            #expect(told.withLock { $0 } == [evicted])
            // What the server has by then ends it.
            let answer = DocumentUpdate(key: evicted, content: .state(server.encoded()))
            _ = try replica.receive(Reception(updates: [answer], settles: [evicted]))
            #expect(try replica.state(evicted) == server.encoded())
            #expect(try replica.wanted(limit: 10).isEmpty)
            #expect(told.withLock { $0 } == [evicted])
        }
    }

    @Test(
        "what was written as an actor before is missed too, whether it was evicted then or later",
        arguments: [["EVICT FROM c"], ["EVICT FROM c WHERE _id = 2"]])
    func cameOlderThanAnotherActor(evictions: [String]) throws {
        try withPeer { replica, _ in
            let older = DocumentUpdate(
                key: try key("c", 1), content: .state(try document("a", 1, by: 5, at: 10).encoded()))
            _ = try replica.receive(Reception(updates: [older]))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            let author = replica.actor
            try replica.execute("UPDATE c SET a = 3")
            for eviction in evictions { try replica.execute(eviction) }
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            #expect(replica.actor != author)
            try replica.execute("EVICT FROM c WHERE _id = 1")
            _ = try replica.receive(Reception(updates: [older]))
            #expect(try replica.wanted(limit: 10) == [key("c", 1)])
        }
    }

    @Test("an evicted document that comes with what was written here is not asked for")
    func cameWhole() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            let state = try #require(try replica.state(key("c", 1)))
            try replica.execute("EVICT FROM c")
            _ = try replica.receive(
                Reception(updates: [DocumentUpdate(key: key("c", 1), content: .state(state))]))
            #expect(try replica.state(key("c", 1)) == state)
            #expect(try replica.wanted(limit: 10).isEmpty)
        }
    }

    @Test("a document that is wanted counts as outdated: what was asked for before may be older")
    func wantedIsOutdated() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c WHERE a = 1")])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1}), ({'_id': 2, 'a': 2})")
            try replica.execute("EVICT FROM c")
            let later = VersionVector([.init(actor: ActorID(9), time: 1)])
            let named = [(try key("c", 1), later), (try key("c", 2), later)]
            #expect(try replica.outdated(named) == [try key("c", 1)])
        }
    }

    @Test("under a live query the evicted documents that it matches are wanted back, durably")
    func liveQuery() throws {
        try withPeer { replica, _ in
            replica.setLiveQueries([try SubscriptionQuery(statement: "SELECT * FROM c WHERE a = 1")])
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1}), ({'_id': 2, 'a': 2})")
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1, 'a': 1})")
            try replica.execute("EVICT FROM c")
            try replica.execute("EVICT FROM d")
            #expect(try replica.wanted(limit: 10) == [try key("c", 1)])
            try replica.settle([try key("c", 1)])
            #expect(try replica.wanted(limit: 10) == [])
            try replica.want([try key("c", 7), try key("c", 8)])
            #expect(try replica.wanted(limit: 1) == [try key("c", 7)])
        }
    }
}
