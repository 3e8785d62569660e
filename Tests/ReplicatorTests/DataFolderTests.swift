import CRDT
import Foundation
import OperationLog
import Replica
import ServiceKit
import Synchronization
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
            let log = FailingOver(lost)
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
            actor: ActorID(7), sequence: number, timestamp: time << 16, changes: [])
        _ = try await log.append([AppendRequest(operation, authorKey: "")], to: "d")
    }
}

/// A log whose server is replaced by another one while clients stay.
private final class FailingOver: OperationLog {
    private let log: Mutex<any OperationLog>

    init(_ log: any OperationLog) { self.log = Mutex(log) }

    func failOver(to other: any OperationLog) { log.withLock { $0 = other } }

    private var current: any OperationLog { log.withLock { $0 } }

    func createDatabase(_ database: String) async throws -> Bool {
        try await current.createDatabase(database)
    }

    func databases() async throws -> [String] { try await current.databases() }

    func databaseExists(_ database: String) async throws -> Bool {
        try await current.databaseExists(database)
    }

    func append(_ requests: [AppendRequest], to database: String) async throws -> [AppendOutcome] {
        try await current.append(requests, to: database)
    }

    func frontier(of actors: [ActorID], in database: String) async throws -> [ActorID: FrontierEntry] {
        try await current.frontier(of: actors, in: database)
    }

    func head(of database: String) async throws -> LogPosition { try await current.head(of: database) }

    func position(at offset: UInt64, in database: String) async throws -> LogPosition? {
        try await current.position(at: offset, in: database)
    }

    func read(_ database: String, after offset: UInt64, limit: ReadLimit) async throws -> [LogEntry] {
        try await current.read(database, after: offset, limit: limit)
    }

    func changes(in database: String) -> AsyncStream<Void> { current.changes(in: database) }

    var status: LogStatus { current.status }

    func close() async { await current.close() }

    func truncation(of database: String) async throws -> LogPosition {
        try await current.truncation(of: database)
    }
    func truncate(_ database: String, through offset: UInt64, keepingHashesAfter floor: UInt64) async throws {
        try await current.truncate(database, through: offset, keepingHashesAfter: floor)
    }
    func snapshot(of database: String) async throws -> LogSnapshot? {
        try await current.snapshot(of: database)
    }
    func beginSnapshot(of database: String, at position: LogPosition) async throws -> SnapshotDraft {
        try await current.beginSnapshot(of: database, at: position)
    }
    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: String) async throws {
        try await current.add(chunk, to: draft, in: database)
    }
    func finish(_ draft: SnapshotDraft, in database: String) async throws -> LogSnapshot {
        try await current.finish(draft, in: database)
    }
    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: String) async throws -> [UInt8] {
        try await current.chunk(index, of: snapshot, in: database)
    }
    func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: String) async throws
        -> ActorLease?
    { try await current.lease(purpose, of: slots, for: duration, in: database) }
    func renew(_ lease: ActorLease, for duration: Duration, in database: String) async throws -> Bool {
        try await current.renew(lease, for: duration, in: database)
    }
    func retire(_ actors: [ActorID], in database: String) async throws {
        try await current.retire(actors, in: database)
    }
    func release(_ lease: ActorLease, retiring: Bool, in database: String) async throws {
        try await current.release(lease, retiring: retiring, in: database)
    }
}
