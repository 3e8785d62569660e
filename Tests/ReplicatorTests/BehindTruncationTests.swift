import CRDT
import DQL
import Foundation
import LogFakes
import Machine
import OperationLog
import Replica
import Replicator
import ServiceKit
import Sync
import Synchronization
import TestSupport
import Testing

@Suite("A running replicator that the log is truncated ahead of", .timeLimit(.minutes(5)))
struct BehindTruncationTests {
    /// A log whose reads fail while it is held: whoever folds it falls behind.
    private final class HeldLog: PassingOnLog, @unchecked Sendable {
        // Unchecked as its base is: the flag is guarded by a lock.
        private let isHeld = Mutex(false)

        func hold(_ flag: Bool) { isHeld.withLock { $0 = flag } }

        override func read(
            _ database: DatabaseID, after offset: Offset, limit: ReadLimit
        ) async throws -> [LogEntry] {
            guard !isHeld.withLock({ $0 }) else { throw OperationLogError(.storageFailed, "held") }
            return try await super.read(database, after: offset, limit: limit)
        }
    }

    @Test("it falls back to the snapshot by itself: its sessions are told, come back, and miss nothing")
    func fallsBack() async throws {
        try await withTemporaryDirectory { folder in
            let underneath = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await underneath.createDatabase(TestBench.database)
            let log = HeldLog(underneath)
            try await TestBench.serve(folder, over: log, underneath) { bench in
                let reader = try bench.peer("reader")
                reader.sync.start()
                _ = try reader.sync.subscribe(statement: "SELECT * FROM c", arguments: ObjectValue())
                let commit = try reader.execute("INSERT INTO c DOCUMENTS ({'_id': 'own'})")
                #expect(try await reader.isAcknowledged(commit))
                log.hold(true)
                // Another service's writes, in the log and not seen here.
                let other = try PeerReplica(
                    directory: folder.appendingPathComponent("other").path,
                    environment: .system, logger: TestBench.quiet)
                let insert = try PreparedStatement("INSERT INTO c DOCUMENTS ({'_id': :n})")
                for number in 1...20 as ClosedRange<Int64> {
                    let made = try other.write { transaction in
                        try insert.execute(
                            in: transaction, arguments: ObjectValue([(key: "n", value: .int(number))]),
                            idGenerator: { Environment.system.generateDocumentID() })
                    }
                    let request = AppendRequest(try #require(made.operation), authorKey: "other")
                    _ = try await underneath.append([request], to: TestBench.database)
                }
                try other.close()
                let fold = try await Materializer.open(
                    TestBench.database, log: underneath,
                    folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
                try await fold.advance()
                _ = try await fold.writeSnapshot { true }
                await fold.close()
                try await underneath.truncate(TestBench.database, through: 18, keepingHashesAfter: 0)
                log.hold(false)
                #expect(try await eventually { try reader.rows("SELECT * FROM c").count == 21 })
                let later = try reader.execute("INSERT INTO c DOCUMENTS ({'_id': 'later'})")
                #expect(try await reader.isAcknowledged(later))
                await reader.sync.stop()
            }
            await underneath.close()
        }
    }
}
