import CRDT
import Foundation
import LogFakes
import OperationLog
import Replica
import ServiceKit
import TestSupport
import Testing

@Suite("Several instances of a service on one data folder", .timeLimit(.minutes(2)))
struct DataFolderTests {
    @Test("the second instance finds a folder of its own and both follow the log")
    func twoInstances() async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("d")
            let place = folder.appendingPathComponent("d").path
            let first = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            let second = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            #expect(first.replica.directory == place)
            #expect(second.replica.directory == place + ".2")
            let operation = CRDT.Operation(actor: ActorID(7), sequence: 1, timestamp: 1 << 16, changes: [])
            let record = OperationRecord(
                actor: operation.actor, sequence: 1, timestamp: operation.timestamp,
                bytes: operation.encoded())
            _ = try await log.append([AppendRequest(record: record, authorKey: "", touches: [])], to: "d")
            for materializer in [first, second] {
                try await materializer.advance()
                #expect(await materializer.position.offset == 1)
                await materializer.close()
            }
            await log.close()
        }
    }

    @Test("a log that is restored under a running service is not folded onto what it has lost")
    func restoredWhileRunning() async throws {
        try await withTemporaryDirectory { folder in
            let path = folder.appendingPathComponent("log.sqlite").path
            let first = try SQLiteOperationLog(path: path)
            try await first.createDatabase("d")
            try await Self.append(1, time: 1, to: first)
            await first.close()
            let backup = folder.appendingPathComponent("backup.sqlite").path
            try FileManager.default.copyItem(atPath: path, toPath: backup)
            let lost = try SQLiteOperationLog(path: path)
            for number: UInt64 in 2...3 { try await Self.append(number, time: number, to: lost) }
            let log = PassingOnLog(lost)
            let place = folder.appendingPathComponent("d").path
            let running = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            try await running.advance()
            #expect(await running.position.offset == 3)
            let restored = try SQLiteOperationLog(path: backup)
            log.failOver(to: restored)
            await #expect(throws: OperationLogError.self) { try await running.advance() }
            // Also once it is as long as the other one was, and longer.
            for number: UInt64 in 2...5 {
                try await Self.append(number, time: number + 10, to: restored)
                await #expect(throws: OperationLogError.self) { try await running.advance() }
            }
            #expect(await running.position.offset == 3)
            #expect(await running.hasLostHistory)
            await running.close()
            let anew = try await Materializer.open("d", log: log, folder: place, logger: TestBench.quiet)
            try await anew.advance()
            let head = try await restored.head(of: "d")
            #expect(await anew.position == head)
            #expect(await !anew.hasLostHistory)
            await anew.close()
            await lost.close()
            await restored.close()
        }
    }

    private static func append(_ number: UInt64, time: UInt64, to log: SQLiteOperationLog) async throws {
        let operation = CRDT.Operation(
            actor: ActorID(7), sequence: SequenceNumber(number), timestamp: time << 16, changes: [])
        _ = try await log.append([AppendRequest(operation, authorKey: "")], to: "d")
    }
}
