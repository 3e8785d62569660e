import CRDT
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("What a store with links keeps, and until when")
struct NoteTests {
    private func count(_ table: String, _ replica: PeerReplica) throws -> Int64 {
        try replica.read { transaction in
            let statement = try RawStatement(fresh: "SELECT COUNT(*) FROM \(table)", transaction.database)
            return try statement.step() ? statement.int(0) : -1
        }
    }

    @Test(
        "without a server the latest operations stay; with one all documents are listed, by another actor"
    )
    func bounded() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("store"))
            _ = try replica.feed.begin(hasServer: false)
            for number in 0..<20 {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': 0})")
            }
            try replica.store.committing { database, _ in
                try KeptOperations.bound(operations: 8, database)
            }
            #expect(try count("operation", replica) == 8)
            try replica.execute("UPDATE c SET n = 1 WHERE _id = 3")
            let actor = replica.actor
            let history = try replica.ownHistory()
            #expect(history.hasLinks)
            #expect(replica.actor != actor)
            #expect(try count("operation", replica) == 0)
            let listed = try replica.feed.wholeLinkList(documents: 20, bytes: 1 << 20)
            #expect(listed?.versions.count == 20)
            // Once only.
            let next = replica.actor
            try replica.execute("UPDATE c SET n = 2 WHERE _id = 3")
            _ = try replica.ownHistory()
            #expect(replica.actor == next)
            #expect(try count("operation", replica) == 1)
            try replica.close()
        }
    }

    @Test(
        "an eviction counts what no other peer has taken, where there is no server",
        arguments: [false, true])
    func untaken(hasServer: Bool) throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("store"))
            _ = try replica.feed.begin(hasServer: hasServer)
            for number in 0..<3 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
            func evict(_ number: Int64) throws -> Int {
                try replica.write { transaction in
                    try transaction.evict("c", [try DocumentID(.int(number))])
                    return transaction.untakenEvictions
                }.value
            }
            #expect(try evict(0) == (hasServer ? 0 : 1))
            replica.feed.noteTaken(replica.head)
            #expect(try evict(1) == 0)
            try replica.execute("UPDATE c SET n = 1 WHERE _id = 2")
            #expect(try evict(2) == (hasServer ? 0 : 1))
            try replica.close()
        }
    }

    @Test("a note of void stamps ends after its time, but where the document still holds one")
    func ends() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("store"))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let (key, other) = (try key("c", 1), try key("c", 2))
            let void = VoidNote(VersionVector([.init(actor: replica.actor, time: 1)]))
            let harmless = VoidNote(VersionVector([.init(actor: ActorID(7), time: 5)]))
            try replica.store.committing { database, _ in
                try Notes.put(key, void: void, position: 1, came: 1_000, database)
                try Notes.put(other, void: harmless, position: 2, came: 2_000, database)
            }
            func expire(_ milliseconds: UInt64) throws -> Int {
                try replica.store.committing { database, _ in
                    try Notes.expire(before: milliseconds, database)
                }
            }
            #expect(try expire(2_000) == 0)
            #expect(try expire(3_000) == 1)
            let left = try replica.read { transaction in
                try transaction.withDatabase { (try Notes.void(key, $0), try Notes.void(other, $0)) }
            }
            #expect(left.0 == void.told && left.1 == nil)
            try replica.close()
        }
    }

    @Test("a store with links forgets a tombstone that is old and that its server has, and no other")
    func oldTombstones() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("store"))
            _ = try replica.feed.begin(hasServer: true)
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 0})")
            for id in 1...5 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
            try replica.execute("UPDATE c APPLY n PN_INCREMENT BY 1 WHERE _id = 2")
            try replica.execute("DELETE FROM c WHERE _id <> 5")
            try replica.acknowledge(replica.actor, through: 8)
            try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 1})")
            try replica.execute("DELETE FROM d")
            // A link has brought something of document 3.
            try replica.store.committing { database, state in
                try MetDocuments.meshed(try key("c", 3), at: state.head + 1, database)
            }
            let feed = try #require(LogID(bytes: Array(repeating: 9, count: 16)))
            let cursor = LogPosition(logID: feed, offset: 3, hash: 1)
            func forget(before milliseconds: UInt64) throws -> Int {
                try replica.store.committing { database, state in
                    try LinkCursors.set([1], of: "c", to: cursor, rights: [], database)
                    return try OldTombstones.forget(before: milliseconds, actor: state.actor, database)
                }
            }
            func held() throws -> [DocumentID] { try replica.everything().keys.map(\.id).sorted() }
            let all = try held()
            #expect(try forget(before: .max) == 0, "no server was seen, which could tell of them")
            try replica.noteSeen(TestLog().position(9), replaces: true)
            #expect(try forget(before: 1) == 0)
            #expect(try held() == all)
            #expect(try forget(before: .max) == 2)
            let kept = try [0, 1, 2, 3, 5].map { try DocumentID(.int($0)) }
            #expect(
                try held() == kept,
                "a seed, one of d that is unsent, a counter, one of a link, one that lives")
            #expect(
                try replica.feed.linkCursor(of: [1], at: feed) == nil, "neighbours' copies are listed again")
            let actor = replica.actor
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 4})")
            #expect(replica.actor != actor)
            try replica.close()
        }
    }
}
