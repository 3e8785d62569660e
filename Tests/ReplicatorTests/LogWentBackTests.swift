import CRDT
import Foundation
import Identity
import LogFakes
import OperationLog
import Replicator
import ServiceKit
import Synchronization
import TestSupport
import Testing

@Suite("A log that goes back under a running replicator", .timeLimit(.minutes(5)))
struct LogWentBackTests {
    /// Runs `body` with a replicator over a log that has one document, and a copy of it to fail over to.
    private func serving(
        _ body: @escaping @Sendable (TestBench, PassingOnLog, SQLiteOperationLog) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let path = folder.appendingPathComponent("log.sqlite").path
            let backup = folder.appendingPathComponent("backup.sqlite").path
            try await TestBench.serve(folder) { bench in
                let peer = try bench.peer("early")
                peer.sync.start()
                let commit = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                #expect(try await peer.isAcknowledged(commit))
                await peer.sync.stop()
                try peer.replica.close()
            }
            try FileManager.default.copyItem(atPath: path, toPath: backup)
            let first = try SQLiteOperationLog(path: path)
            let second = try SQLiteOperationLog(path: backup)
            let log = PassingOnLog(first)
            try await TestBench.serve(folder, over: log, first) { bench in
                try await body(bench, log, second)
            }
            await first.close()
            await second.close()
        }
    }

    @Test("sessions end with a reason, the documents are built anew, and peers give back what was lost")
    func goesOn() async throws {
        try await serving { bench, log, restored in
            let writer = try bench.peer("writer")
            let reader = try bench.peer("reader")
            for peer in [writer, reader] {
                peer.sync.start()
                _ = try peer.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
            }
            let commit = try writer.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            #expect(try await writer.isAcknowledged(commit))
            #expect(try await eventually { try reader.rows("SELECT * FROM c").count == 2 })
            log.failOver(to: restored)
            let later = try writer.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
            #expect(try await writer.isAcknowledged(later))
            #expect(try await eventually { try reader.rows("SELECT * FROM c").count == 3 })
            // Who has seen nothing of the lost log is told everything by the restored one, whether what was
            // lost came as one operation or as several.
            let newcomer = try bench.peer("newcomer")
            newcomer.sync.start()
            _ = try newcomer.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
            #expect(try await eventually { try newcomer.rows("SELECT * FROM c").count == 3 })
            #expect(try await restored.head(of: TestBench.database).offset >= 2)
            for peer in [writer, reader, newcomer] { await peer.sync.stop() }
        }
    }

    /// Counts who asks for places of the log.
    private final class CountingLog: PassingOnLog, @unchecked Sendable {
        let count = Atomic(0)

        override func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
            count.add(1, ordering: .relaxed)
            return try await super.position(at: offset, in: database)
        }
    }

    @Test("whether the log has what is folded is asked once in each of its terms, not before each append")
    func verification() async throws {
        try await withTemporaryDirectory { folder in
            let file = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await file.createDatabase(TestBench.database)
            let log = CountingLog(file)
            try await TestBench.serve(folder, over: log, file) { bench in
                let peer = try bench.peer("writer")
                peer.sync.start()
                func write(_ number: Int) async throws -> Int {
                    let before = log.count.load(ordering: .relaxed)
                    let commit = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                    #expect(try await peer.isAcknowledged(commit))
                    return log.count.load(ordering: .relaxed) - before
                }
                _ = try await write(0)
                #expect(try await write(1) == 0)
                log.failOver(to: file)
                #expect(try await write(2) == 1)
                #expect(try await write(3) == 0)
                await peer.sync.stop()
            }
            await file.close()
        }
    }

    @Test(
        "what its holder might not write then, nor even read, is given back once it may",
        arguments: [AccessRules.everything, .nothing])
    func declined(readable: AccessRules) async throws {
        try await serving { bench, log, restored in
            func visit(_ grant: Grant, _ body: (TestPeer) async throws -> Void) async throws {
                let peer = try bench.peer("peer", grant: grant)
                peer.sync.start()
                try await body(peer)
                await peer.sync.stop()
                try peer.replica.close()
            }
            func length() async throws -> Offset { try await restored.head(of: TestBench.database).offset }
            try await visit(.everything) { peer in
                // So nothing is left to ask: who asks for what it may not write is told that it is gone.
                _ = try peer.sync.subscribe(
                    statement: "SELECT * FROM c WHERE _id = 2", arguments: ObjectValue())
                let commit = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                #expect(try await peer.isAcknowledged(commit))
            }
            log.failOver(to: restored)
            let before = try await length()
            try await visit(Grant(read: readable, write: .nothing)) { peer in
                let isDeclined = try await eventually { try peer.replica.declinedRights() != nil }
                #expect(isDeclined)
                #expect(try await length() == before)
                // No subscription asks for it, so it is not told as gone either.
                #expect(try peer.rows("SELECT _id FROM c") == ["{\"_id\":2}"])
            }
            try await visit(.everything) { peer in
                let isTaken = try await eventually { try peer.replica.declinedRights() == nil }
                #expect(isTaken)
                #expect(try await length() == before.next)
            }
        }
    }
}
