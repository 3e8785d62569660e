import CRDT
import DQL
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Replica

@Suite("Building indexes")
struct IndexBuildTests {
    private static let documents = ReplicaLimits.indexBuildDocuments * 3 + 10

    private static func fill(_ replica: PeerReplica) throws {
        try replica.insert(0..<documents) { ["a": .int(Int64($0 * 7 % 1_000)), "t": .string("text \($0)")] }
    }

    @Test("an index on a full collection is built in steps, between which others write")
    func steps() throws {
        try withPeer { replica, _ in
            try Self.fill(replica)
            try replica.beginIndex("a", on: "a", steps: 1)
            #expect(try replica.description(of: "a")?.isReady == false)
            try replica.execute("UPDATE c SET a = 'early' WHERE _id = 1")
            try replica.execute("UPDATE c SET a = 'late' WHERE _id = \(Self.documents - 1)")
            try replica.execute("DELETE FROM c WHERE _id = 2 OR _id = \(Self.documents - 2)")
            try replica.execute("EVICT FROM c WHERE _id = 3 OR _id = \(Self.documents - 3)")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 'new', 'a': 'new'})")
            #expect(try replica.indexFaults() == [])
            var steps = 1
            while try replica.store.buildStep("c", "a") { steps += 1 }
            #expect(steps >= 3)
            #expect(try replica.description(of: "a")?.isReady == true)
            #expect(try replica.indexFaults() == [])
            let texts = IndexRange(next: KeyRange(from: .beforeClass(.string), to: .afterClass(.string)))
            #expect(try replica.ids("a", [texts]) == ["1", "\(Self.documents - 1)", "new"])
        }
    }

    @Test("while CREATE INDEX builds, readers begin and end, and a step's transaction holds none up")
    func readsBesides() throws {
        try withPeer { replica, _ in
            try Self.fill(replica)
            let seen = Mutex<[Int]>([])
            let readAll: @Sendable () -> Void = {
                let rows = try? replica.rows("SELECT _id FROM c WHERE a >= 0")
                seen.withLock { $0.append(rows?.count ?? -1) }
            }
            try replica.change(.create(index("a", on: ["a"]), ifNotExists: false)) {
                readAll()
                return nil
            }
            try replica.store.writing { database in
                try database.execute(sql: "UPDATE documents_1 SET state = state WHERE number = 1")
                readAll()
            }
            let counts = seen.withLock { $0 }
            #expect(counts.count >= 4 && counts.allSatisfy { $0 == Self.documents }, "\(counts)")
        }
    }

    @Test(
        "a process that ends in the midst of building goes on when the store is opened again",
        arguments: 0..<4)
    func resumes(_ steps: Int) throws {
        try withTemporaryDirectory { folder in
            let home = folder.appendingPathComponent("home")
            let replica = try open(home)
            try Self.fill(replica)
            try replica.beginIndex("a", on: "a", steps: steps)
            // What kill -9 leaves: the files as they are, the write-ahead log included.
            let killed = folder.appendingPathComponent("killed")
            try FileManager.default.copyItem(at: home, to: killed)
            try replica.close()

            let again = try open(killed)
            try until { try again.description(of: "a")?.isReady ?? false }
            #expect(try again.indexFaults() == [])
            #expect(try again.ids("a", [IndexRange()]).count == Self.documents)
            try again.close()
        }
    }

    @Test("an index that is dropped, or a store that is closed, while it is built, ends the building")
    func ends() throws {
        try withPeer { replica, _ in
            try Self.fill(replica)
            try replica.beginIndex("a", on: "a", steps: 1)
            try replica.change(.drop(collection: "c", name: "a", ifExists: false))
            #expect(try !replica.store.buildStep("c", "a"))
            try replica.beginIndex("a", on: "t", steps: 1)
            #expect(try replica.description(of: "a")?.keys.map(\.path) == [["t"]])
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("a build that is cancelled, times out or fails leaves no index behind, and the next one works")
    func cancelled() throws {
        try withPeer { replica, _ in
            try Self.fill(replica)
            for (reason, code) in [(Interruption.cancelled, "DQL-0610"), (.timeout, "DQL-0611")] {
                let error = #expect(throws: DQLError.self) {
                    try replica.change(.create(index("a", on: ["a"]), ifNotExists: false)) { reason }
                }
                #expect(error?.code.rawValue == code)
                #expect(try replica.indexes().isEmpty)
            }
            try replica.store.writing { database in
                try database.execute(sql: "UPDATE documents_1 SET state = x'07' WHERE number = 2000")
            }
            #expect(throws: CRDTError.self) { try replica.createIndex("a", on: "a") }
            #expect(try replica.indexes().isEmpty)
            try replica.store.writing { try $0.execute(sql: "DELETE FROM documents_1 WHERE number = 2000") }
            try replica.createIndex("a", on: "a")
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("an index that is dropped while CREATE INDEX builds it ends that statement")
    func dropped() throws {
        try withPeer { replica, _ in
            try Self.fill(replica)
            let drops = Mutex(0)
            let error = #expect(throws: DQLError.self) {
                try replica.change(.create(index("a", on: ["a"]), ifNotExists: false)) {
                    if drops.withLock({
                        $0 += 1
                        return $0
                    }) == 1 {
                        try? replica.change(.drop(collection: "c", name: "a", ifExists: false))
                    }
                    return nil
                }
            }
            #expect(error?.message.contains("was dropped while it was built") == true)
            #expect(drops.withLock { $0 } == 1)
            #expect(try replica.indexes().isEmpty)
        }
    }

    @Test("an index that a damaged document keeps from being completed is dropped at the next opening")
    func damaged() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder)
            try Self.fill(replica)
            try replica.beginIndex("a", on: "a", steps: 1)
            try replica.store.writing { database in
                try database.execute(sql: "UPDATE documents_1 SET state = x'07' WHERE number = 2000")
            }
            try replica.close()
            let again = try open(folder)
            try until { try again.indexes().isEmpty }
            try again.close()
        }
    }

    @Test("a reader keeps the indexes of its snapshot while they are built and dropped")
    func snapshots() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            try replica.createIndex("old", on: "a")
            try replica.read { transaction in
                let before = try transaction.catalog(of: "c")
                try elsewhere {
                    try replica.createIndex("new", on: "a")
                    try replica.change(.drop(collection: "c", name: "old", ifExists: false))
                }
                #expect(try transaction.catalog(of: "c") == before)
                var found = 0
                try transaction.documents(of: IndexScan(index: before.indexes[0], ranges: [IndexRange()])) {
                    _ in
                    found += 1
                    return true
                }
                #expect(found == 1)
            }
            #expect(try replica.indexes().map(\.name) == ["new"])
        }
    }

    @Test("a catalog's version differs whenever its indexes do")
    func versions() throws {
        try withPeer { replica, _ in
            var seen: Set<UInt64> = []
            func note() throws { try seen.insert(replica.read { try $0.catalog(of: "c").version }) }
            try note()
            try Self.fill(replica)
            try replica.beginIndex("a", on: "a", steps: 1)
            try note()
            try replica.change(.create(index("a", on: ["a"]), ifNotExists: true))
            try note()
            try replica.execute(
                "INSERT INTO c DOCUMENTS ({'_id': 'x', 'a': :a})",
                arguments(("a", .string(String(repeating: "x", count: 1_000)))))
            try note()
            try replica.change(.drop(collection: "c", name: "a", ifExists: false))
            try replica.createIndex("a", on: "a")
            try note()
            #expect(seen.count == 5)
        }
    }
}
