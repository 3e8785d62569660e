import CRDT
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("What a store without a server keeps, and notes of what is gone")
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
            let listed = try replica.feed.linkHoldings(after: nil, through: replica.head)
            #expect(listed.candidates.count == 20)
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

    @Test("a note ends after its time, but for what a later stamp of its actor would speak for")
    func ends() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder.appendingPathComponent("store"))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
            let held = try #require(try replica.read { try $0.state(of: key) }).withUnsafeBytes {
                try DocumentReader($0).vector()
            }
            let own = try #require(held.entries.first)
            let other = DocumentKey(collection: "c", id: try DocumentID(.int(2)))
            let gone = VersionVector([
                .init(actor: own.actor, time: own.time - 1), .init(actor: ActorID(7), time: 5),
            ])
            try replica.store.committing { database, _ in
                try Notes.put(key, gone, position: 1, came: 1_000, database)
                try Notes.put(other, gone, position: 2, came: 2_000, database)
            }
            let ended = try replica.store.committing { database, _ in
                try Notes.expire(before: 3_000, actor: ActorID(9), database)
            }
            #expect(ended == 1)
            let left = try replica.read { transaction in
                try transaction.withDatabase { (try Notes.find(key, $0), try Notes.find(other, $0)) }
            }
            #expect(left.0?.entries == [.init(actor: own.actor, time: own.time - 1)])
            #expect(left.1 == nil)
            try replica.close()
        }
    }
}
