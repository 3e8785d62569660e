import CRDT
import DQL
import Exchange
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("Documents staged where they will stay")
struct StagedDocumentsTests {
    private func update(
        _ id: Int64, _ value: Value, at time: UInt64 = 10, by actor: UInt64 = 5
    ) throws -> DocumentUpdate {
        DocumentUpdate(
            key: try key("c", .int(id)),
            content: .state(try document("a", value, by: actor, at: time).encoded()))
    }

    private func end(_ log: TestLog, _ offset: Offset = 7, _ updates: [DocumentUpdate] = []) -> Reception {
        Reception(updates: updates, cursors: [(key: [1], position: log.position(offset))], publishes: [1])
    }

    /// How many documents tables there are, of collections and staged; and how many pages.
    private func tables(_ replica: PeerReplica) throws -> (documents: Int, pages: Int) {
        try replica.committing { database, _ in
            let documents = try Int.fetchOne(
                database,
                sql: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name LIKE 'documents_%'")
            let pages = try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM staged_page")
            return ((documents ?? 0, pages ?? 0), nil)
        }
    }

    private var rows: String { "SELECT _id, a FROM c ORDER BY _id" }

    @Test("a first catch-up is written once, invisible until its end, and goes on after reopening")
    func first() throws {
        try withTemporaryDirectory { folder in
            let log = TestLog()
            let store = try open(folder)
            try store.stage([try update(1, 1), try update(2, 2)], for: [1], resume: [9])
            try store.close()
            let replica = try open(folder)
            #expect(try replica.resumption(of: [1]) == [9])
            try replica.stage([try update(3, 3)], for: [1], resume: [10])
            #expect(try tables(replica) == (1, 0))
            #expect(try replica.rows(rows).isEmpty)
            #expect(try replica.read { try $0.collectionNames() }.isEmpty)
            #expect(try replica.holdings(after: nil).candidates.isEmpty)
            #expect(try !replica.holdsDocuments(in: "c"))
            let seen = Recorder()
            let listener = replica.addListener { seen.note($0.documents) }
            #expect(try replica.receive(end(log, 7, [try update(4, 4)])) == .stored)
            replica.removeListener(listener)
            #expect(seen.documents.count == 4 && Set(seen.documents).count == 4)
            #expect(try replica.rows(rows).count == 4)
            #expect(try tables(replica) == (1, 0))
            #expect(try replica.resumption(of: [1]) == nil)
            // The collection is like any other from here on.
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 5, 'a': 5})")
            try replica.execute("DELETE FROM c WHERE _id = 1")
            try replica.createIndex("a", on: "a")
            #expect(try replica.ids("a", [IndexRange()]) == ["2", "3", "4", "5"])
            #expect(try replica.indexFaults() == [])
            #expect(try replica.read { try $0.count(of: "c") } == 4)
            try replica.close()
        }
    }

    @Test("a document that comes again is merged, whichever is the newer")
    func again() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            try replica.stage([try update(1, "old", at: 10)], for: [1])
            try replica.stage([try update(1, "new", at: 20), try update(2, "new", at: 20)], for: [1])
            try replica.stage([try update(2, "old", at: 10)], for: [1])
            #expect(try replica.receive(end(log)) == .stored)
            let expected = ["{\"_id\":1,\"a\":\"new\"}", "{\"_id\":2,\"a\":\"new\"}"]
            #expect(try replica.rows(rows) == expected)
        }
    }

    @Test("what was written here meanwhile is merged with it, and an index made meanwhile holds it")
    func meanwhile() throws {
        for makesIndex in [false, true] {
            try withPeer { replica, _ in
                let log = TestLog()
                try replica.stage([try update(1, 1), try update(2, 2)], for: [1])
                if makesIndex {
                    try replica.createIndex("a", on: "a")
                } else {
                    try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'b': 1}), ({'_id': 3, 'b': 1})")
                }
                try replica.stage([try update(4, 4)], for: [1])
                #expect(try replica.receive(end(log)) == .stored)
                #expect(try replica.rows(rows).count == (makesIndex ? 3 : 4))
                #expect(try tables(replica) == (1, 0))
                if makesIndex {
                    #expect(try replica.ids("a", [IndexRange()]) == ["1", "2", "4"])
                    #expect(try replica.indexFaults() == [])
                } else {
                    #expect(try replica.rows("SELECT _id FROM c WHERE b = 1 AND a = 2").count == 1)
                }
            }
        }
    }

    @Test("what is gone, and all that follows, keeps its order behind what was staged before")
    func order() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            let first = try update(1, "first", at: 10)
            guard case .state(let bytes) = first.content else { return }
            let vector = try Document(decoding: bytes).vector.encoded()
            try replica.stage([first, try update(2, 2)], for: [1])
            try replica.stage([DocumentUpdate(key: first.key, content: .gone(vector))], for: [1])
            try replica.stage([try update(3, 3)], for: [1])
            #expect(try tables(replica) == (1, 2))
            #expect(try replica.receive(end(log)) == .stored)
            #expect(try replica.rows("SELECT _id FROM c ORDER BY _id") == ["{\"_id\":2}", "{\"_id\":3}"])
            #expect(try tables(replica) == (1, 0))
        }
    }

    @Test("two subscriptions of one collection both end in it")
    func two() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            try replica.stage([try update(1, 1), try update(2, 2)], for: [1])
            try replica.stage([try update(2, 2), try update(3, 3)], for: [2])
            #expect(try tables(replica) == (2, 0))
            #expect(try replica.receive(end(log)) == .stored)
            #expect(try replica.rows(rows).count == 2)
            #expect(try replica.receive(Reception(publishes: [2])) == .stored)
            #expect(try replica.rows(rows).count == 3)
            #expect(try tables(replica) == (1, 0))
        }
    }

    @Test("a discarded one leaves no table, and its number is free for a collection again")
    func discarded() throws {
        try withPeer { replica, _ in
            try replica.stage([try update(1, 1)], for: [1])
            try replica.stage([try update(1, 1)], for: [2], resume: [3])
            try replica.discardStaged(for: [1])
            #expect(try tables(replica) == (1, 0))
            try replica.discardStaged(but: [[2]])
            #expect(try tables(replica) == (1, 0))
            try replica.discardStaged(but: [])
            #expect(try tables(replica) == (0, 0))
            try replica.stage([try update(1, 1)], for: [1])
            try replica.discardStaged()
            #expect(try tables(replica) == (0, 0))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            #expect(try tables(replica) == (2, 0))
        }
    }

    @Test("a collection made while a table is staged has a number of its own")
    func numbers() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            try replica.stage([try update(1, 1)], for: [1])
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 7})")
            #expect(try replica.receive(end(log)) == .stored)
            #expect(try replica.rows("SELECT _id FROM d") == ["{\"_id\":7}"])
            #expect(try replica.rows("SELECT _id FROM c") == ["{\"_id\":1}"])
        }
    }

    @Test("an empty collection that was there gives way")
    func emptied() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try replica.execute("EVICT FROM c")
            try replica.stage([try update(1, 1)], for: [1])
            #expect(try replica.receive(end(log)) == .stored)
            #expect(try replica.rows("SELECT _id FROM c") == ["{\"_id\":1}"])
            #expect(try tables(replica) == (1, 0))
        }
    }

    @Test("an outdated document that is staged is found, and only in an older state")
    func outdated() throws {
        try withPeer { replica, _ in
            try replica.stage([try update(1, 1, at: 10)], for: [1])
            func vector(_ time: UInt64) -> VersionVector {
                VersionVector([.init(actor: ActorID(5), time: time)])
            }
            let known = try update(1, 1).key
            let other = try update(2, 1).key
            #expect(try replica.outdated([(known, vector(20)), (other, vector(20))], for: [1]) == [known])
            #expect(try replica.outdated([(known, vector(10))], for: [1]).isEmpty)
            #expect(try replica.outdated([(known, vector(20))], for: [2]).isEmpty)
        }
    }
}

/// Remembers what commits told.
private final class Recorder: @unchecked Sendable {
    // Written by the one test that commits, in its own thread.
    private(set) var documents: [DocumentKey] = []
    func note(_ keys: [DocumentKey]) { documents += keys }
}
