import CRDT
import DQL
import Foundation
import Identity
import Machine
import Replica
import TestSupport
import Testing

@Suite("A peer that is not in line with its server", .timeLimit(.minutes(2)))
struct BackInLineTests {
    private static let carsOnly = Grant(
        read: .everything, write: AccessRules(queriesByCollection: ["cars": ["true"]]))

    @Test("a refused write is set aside and told, its documents become the server's, all others get through")
    func refusedWrite() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer", grant: Self.carsOnly)
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")
            let actor = peer.replica.actor
            let refused = try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': 'b', 'n': 2})")
            let last = try peer.execute("UPDATE cars SET n = 3 WHERE _id = 'a'")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(last))
            #expect(try peer.rows("SELECT * FROM boats").isEmpty)
            #expect(try peer.rows("SELECT n FROM cars") == ["{\"n\":3}"])
            #expect(peer.replica.actor != actor)
            let writes = try peer.replica.refusedWrites()
            #expect(writes.map(\.commit) == [refused])
            #expect(writes.map(\.code) == ["SYNC-0401"])
            #expect(writes.map { $0.documents.map(\.collection) } == [["boats"]])
            // The session goes on.
            let later = try peer.execute("UPDATE cars SET n = 4 WHERE _id = 'a'")
            #expect(try await peer.isAcknowledged(later))
            let reader = try bench.peer("reader")
            try reader.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            reader.sync.start()
            #expect(try await eventually { try reader.rows("SELECT n FROM cars") == ["{\"n\":4}"] })
            await reader.sync.stop()
            await peer.sync.stop()
        }
    }

    @Test(
        "what was written a day ahead reaches the server under the server's time, once", arguments: [24, -24])
    func clocks(_ hours: Int64) async throws {
        try await TestBench.run { bench in
            let skewed = Environment(
                wallMilliseconds: {
                    UInt64(Int64(Environment.system.wallMilliseconds()) + hours * 3_600_000)
                }, random: Environment.system.random, pause: Environment.system.pause)
            let peer = try bench.peer("peer", environment: skewed)
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")
            try peer.execute("UPDATE cars SET n = 2 WHERE _id = 'a'")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(2))
            let last = try peer.execute("UPDATE cars SET n = 3 WHERE _id = 'a'")
            #expect(try await peer.isAcknowledged(last))
            #expect(try peer.replica.refusedWrites().isEmpty)
            let now = Environment.system.wallMilliseconds()
            let entries = try await bench.log.read(TestBench.database, after: 0)
            let written = try entries.filter { try !Operation(decoding: $0.bytes).changes.isEmpty }
            #expect(written.count == 3)
            #expect(written.allSatisfy { !HybridClock.isTooFarAhead($0.timestamp, wallMilliseconds: now) })
            await peer.sync.stop()
        }
    }

    @Test("a store that was rolled back keeps what it still has, and gets back what it lost")
    func rolledBackStore() async throws {
        try await TestBench.run { bench in
            let folder = bench.folder.appendingPathComponent("peer")
            let peer = try bench.peer("peer")
            try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            peer.sync.start()
            #expect(try await peer.isAcknowledged(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")))
            await peer.sync.stop()
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 2})")
            try peer.replica.close()
            let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            let kept = try files.map { ($0, try Data(contentsOf: folder.appendingPathComponent($0))) }
            let lost = try bench.peer("peer")
            lost.sync.start()
            #expect(try await lost.isAcknowledged(lost.execute("INSERT INTO cars DOCUMENTS ({'_id': 3})")))
            await lost.sync.stop()
            try lost.replica.close()
            // In place, as a snapshot of a whole machine comes back: device and inode stay.
            for (name, bytes) in kept {
                let handle = try FileHandle(forWritingTo: folder.appendingPathComponent(name))
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: bytes)
                try handle.close()
            }
            let back = try bench.peer("peer")
            let actor = back.replica.actor
            #expect(actor == peer.replica.actor)
            try back.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            try back.execute("INSERT INTO cars DOCUMENTS ({'_id': 4})")
            back.sync.start()
            #expect(try await back.isAcknowledged(back.replica.head))
            #expect(back.replica.actor != actor)
            #expect(try await eventually { try back.rows("SELECT * FROM cars").count == 4 })
            #expect(try back.replica.refusedWrites().isEmpty)
            await back.sync.stop()
        }
    }

    @Test(
        "a restored server gets back what a peer holds, also what others wrote, and takes what rests on it"
    )
    func restoredServer() async throws {
        try await withTemporaryDirectory { folder in
            let log = folder.appendingPathComponent("log.sqlite")
            try await TestBench.serve(folder) { bench in
                let writer = try bench.peer("writer")
                writer.sync.start()
                #expect(
                    try await writer.isAcknowledged(
                        writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")))
                await writer.sync.stop()
                try writer.replica.close()
            }
            let files = ["", "-wal", "-shm"].map { URL(fileURLWithPath: log.path + $0) }
            let backup = files.map { try? Data(contentsOf: $0) }
            try await TestBench.serve(folder) { bench in
                let writer = try bench.peer("writer")
                let reader = try bench.peer("reader")
                try reader.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
                for peer in [writer, reader] { peer.sync.start() }
                try writer.execute("UPDATE cars SET n = 2 WHERE _id = 'a'")
                let last = try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'b', 'n': 1})")
                #expect(try await writer.isAcknowledged(last))
                #expect(try await eventually { try reader.rows("SELECT * FROM cars WHERE n = 2").count == 1 })
                #expect(try await eventually { try reader.rows("SELECT * FROM cars").count == 2 })
                for peer in [writer, reader] {
                    await peer.sync.stop()
                    try peer.replica.close()
                }
            }
            try FileManager.default.removeItem(at: folder.appendingPathComponent("replicator"))
            for (file, bytes) in zip(files, backup) {
                try? FileManager.default.removeItem(at: file)
                try bytes?.write(to: file)
            }
            // The writer never comes back; what the reader writes rests on what the server has lost.
            try await TestBench.serve(folder) { bench in
                let reader = try bench.peer("reader")
                let commit = try reader.execute("UPDATE cars SET n = n + 5 WHERE _id = 'a'")
                reader.sync.start()
                #expect(try await reader.isAcknowledged(commit))
                #expect(try reader.replica.refusedWrites().isEmpty)
                let third = try bench.peer("third")
                try third.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
                third.sync.start()
                #expect(
                    try await eventually {
                        try third.rows("SELECT _id, n FROM cars ORDER BY _id") == [
                            "{\"_id\":\"a\",\"n\":7}", "{\"_id\":\"b\",\"n\":1}",
                        ]
                    })
                for peer in [reader, third] { await peer.sync.stop() }
            }
        }
    }

    @Test("many refused writes are told together, not one in every round")
    func manyRefused() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer", grant: Self.carsOnly)
            for number in 0..<60 {
                try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': \(number)})")
                try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': \(number)})")
            }
            peer.sync.start()
            #expect(try await peer.isAcknowledged(120))
            #expect(try peer.replica.refusedWrites().map(\.commit) == (0..<60).map { UInt64(2 * $0 + 1) })
            #expect(try peer.rows("SELECT * FROM boats").isEmpty)
            #expect(try peer.rows("SELECT * FROM cars").count == 60)
            // Sixty operations, and a record for every round of refusals.
            #expect(try await bench.log.head(of: TestBench.database).offset <= 66)
            await peer.sync.stop()
        }
    }

    @Test("a seed is taken from whoever wrote and deleted its document before")
    func seedAfterDeletion() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")
            try peer.execute("DELETE FROM cars WHERE _id = 'a'")
            try peer.execute("INSERT INTO cars INITIAL DOCUMENTS ({'_id': 'a', 'n': 2})")
            let last = try peer.execute("UPDATE cars SET m = 3 WHERE _id = 'a'")
            let actor = peer.replica.actor
            peer.sync.start()
            #expect(try await peer.isAcknowledged(last))
            #expect(try peer.replica.refusedWrites().isEmpty)
            #expect(peer.replica.actor == actor)
            #expect(try peer.rows("SELECT n, m FROM cars") == ["{\"m\":3,\"n\":2}"])
            await peer.sync.stop()
        }
    }

    @Test("what the server has acknowledged is not kept")
    func truncation() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            for number in 0..<50 { try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': \(number)})") }
            peer.sync.start()
            #expect(try await peer.isAcknowledged(50))
            let kept = try peer.replica.ownOperations(of: peer.replica.actor, after: 0, maxBytes: .max)
            #expect(kept.isEmpty)
            #expect(try peer.replica.ownActors().map(\.sequence) == [50])
            await peer.sync.stop()
        }
    }
}
