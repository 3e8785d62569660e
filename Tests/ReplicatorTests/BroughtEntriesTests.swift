import CRDT
import Foundation
import LogFakes
import OperationLog
import Replica
import ServiceKit
import Synchronization
import TestSupport
import Testing

@Suite("A fold that is brought what was appended", .timeLimit(.minutes(5)))
struct BroughtEntriesTests {
    /// A log whose wake-ups bring what a test puts into them, and that counts who asks it.
    private final class ToldLog: PassingOnLog, @unchecked Sendable {
        // Unchecked as its base is: what it adds is constant, or guarded by a lock.
        private let asked = Mutex(0)
        private let told = AsyncStream.makeStream(of: LogChange.self)

        /// How often its head or its entries were read.
        var asking: Int { asked.withLock { $0 } }

        func tell(_ entries: [LogEntry]) { told.continuation.yield(LogChange(entries: entries)) }

        override func head(of database: DatabaseID) async throws -> LogPosition {
            asked.withLock { $0 += 1 }
            return try await super.head(of: database)
        }

        override func read(
            _ database: DatabaseID, after offset: Offset, limit: ReadLimit
        ) async throws -> [LogEntry] {
            asked.withLock { $0 += 1 }
            return try await super.read(database, after: offset, limit: limit)
        }

        override func changes(in database: DatabaseID) -> AsyncStream<LogChange> {
            told.stream
        }
    }

    /// A fold that follows a log, and the log underneath.
    private struct Bench: Sendable {
        let told: ToldLog
        let log: SQLiteOperationLog
        let fold: Materializer

        /// Appends so many operations, each of a document of its own, and returns them as the log has them.
        func append(_ sequences: ClosedRange<UInt64>) async throws -> [LogEntry] {
            let before = try await log.head(of: TestBench.database).offset
            let requests = try sequences.map { AppendRequest(try TestBench.insertion($0), authorKey: "key") }
            _ = try await log.append(requests, to: TestBench.database)
            return try await log.read(TestBench.database, after: before)
        }

        func reaches(_ offset: Offset) async -> Bool { await fold.wait(for: offset, timeout: .seconds(60)) }

        /// Whether it has folded what the log has.
        func isRight() async throws -> Bool {
            let head = try await log.head(of: TestBench.database)
            let isWhole = try fold.replica.read { transaction in
                try (1...Int64(head.offset.rawValue)).allSatisfy { number in
                    try transaction.state(of: DocumentKey(collection: "c", id: DocumentID(.int(number))))
                        != nil
                }
            }
            return await fold.position == head && isWhole
        }
    }

    private func following(_ body: @escaping @Sendable (Bench) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase(TestBench.database)
            let told = ToldLog(log)
            let fold = try await Materializer.open(
                TestBench.database, log: told, folder: folder.appendingPathComponent("fold").path,
                logger: TestBench.quiet)
            let running = Task { await fold.run() }
            try await body(Bench(told: told, log: log, fold: fold))
            running.cancel()
            await running.value
            await fold.close()
            await log.close()
        }
    }

    @Test("entries that are brought in order are not read from the log again")
    func isBrought() async throws {
        try await following { bench in
            for sequence in 1...20 as ClosedRange<UInt64> {
                bench.told.tell(try await bench.append(sequence...sequence))
                #expect(await bench.reaches(Offset(sequence)))
            }
            #expect(bench.told.asking == 0)
            #expect(try await bench.isRight())
        }
    }

    @Test("what does not follow on what is folded makes it ask the log")
    func hasHoles() async throws {
        try await following { bench in
            let entries = try await bench.append(1...6)
            bench.told.tell(Array(entries[2...3]))
            #expect(await bench.reaches(6))
            let asking = bench.told.asking
            #expect(asking > 0)
            // Late news of what is folded already.
            bench.told.tell(Array(entries[4...5]))
            bench.told.tell(try await bench.append(7...7))
            #expect(await bench.reaches(7))
            #expect(try await bench.isRight())
        }
    }

    @Test("what has another history makes it ask the log")
    func isForeign() async throws {
        try await following { bench in
            let entries = try await bench.append(1...1)
            let other = OperationRecord(
                actor: ActorID(1), sequence: 1, timestamp: 1 << 16,
                bytes: try TestBench.insertion(9).encoded())
            bench.told.tell([LogEntry(offset: 1, hash: entries[0].hash, record: other)])
            #expect(await bench.reaches(1))
            #expect(try await bench.isRight())
        }
    }

    @Test("who asks for all of the log is not content with what was brought")
    func isWhole() async throws {
        try await following { bench in
            for round in 0..<20 as Range<UInt64> {
                let entries = try await bench.append(2 * round + 1...2 * round + 2)
                bench.told.tell([entries[0]])
                try await bench.fold.advance()
                #expect(await bench.fold.position.offset.rawValue == 2 * round + 2)
            }
            #expect(try await bench.isRight())
        }
    }
}
