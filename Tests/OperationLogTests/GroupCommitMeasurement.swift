import CRDT
import Foundation
import GRDB
import Glibc
import Testing

@testable import OperationLog

/// Figures, printed beside their reference from the same run. Run alone, in a release build:
/// `MIMEO_MEASURE=1 swift test -c release -Xswiftc -enable-testing --filter GroupCommitMeasurement`
@Suite("Measured, not judged", .serialized, .enabled(if: getenv("MIMEO_MEASURE") != nil))
struct GroupCommitMeasurement {
    @Test("one appender and sixty-four, against a bare loop of single-row inserts with the same durability")
    func groupCommit() async throws {
        try await withTemporaryPath { path in
            let bare = try bareLoop(path + ".bare", count: 1_000)
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            let one = try await rate(log, appenders: 1, operations: 1_000, firstActor: 1)
            let many = try await rate(log, appenders: 64, operations: 500, firstActor: 100)
            let batch = try await batchRate(log, batches: 100, size: 512)
            print(
                "bare loop \(bare)/s, 1 appender \(one)/s, 64 appenders \(many)/s, batches of 512 \(batch)/s")
            let started = ContinuousClock.now
            let total = try await readAll(log, step: 1_000).count
            print("read and verified \(total) operations in \(ContinuousClock.now - started)")
            #expect(total == 1_000 + 64 * 500 + 100 * 512)
            await log.close()
        }
    }

    @Test("an idle log with a waiting reader")
    func idle() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            let changes = log.changes(in: "db")
            let before = processorTime()
            try await Task.sleep(for: .seconds(20))
            print("idle for 20 s: \((processorTime() - before) / 20 * 100) % of a core")
            await log.close()
            for await _ in changes {}
            #expect(log.status.refusal?.code == .closed)
        }
    }
}

/// Operations per second of appenders that each append one operation a call of 300 bytes.
private func rate(
    _ log: SQLiteOperationLog, appenders: UInt64, operations: UInt64, firstActor: UInt64
) async throws -> Int {
    let started = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
        for actor in firstActor..<firstActor + appenders {
            group.addTask {
                for sequence in 1...operations {
                    _ = try await log.append([request(actor, SequenceNumber(sequence), size: 300)], to: "db")
                }
            }
        }
        try await group.waitForAll()
    }
    return perSecond(Int(appenders * operations), since: started)
}

private func batchRate(_ log: SQLiteOperationLog, batches: UInt64, size: UInt64) async throws -> Int {
    let started = ContinuousClock.now
    for batch in 0..<batches {
        let sequences = batch * size + 1...(batch + 1) * size
        _ = try await log.append(requests(7_777, sequences, size: 300), to: "db")
    }
    return perSecond(Int(batches * size), since: started)
}

private func bareLoop(_ path: String, count: Int) throws -> Int {
    let pool = try DatabasePool(path: path)
    return try pool.writeWithoutTransaction { db in
        try db.execute(sql: "PRAGMA synchronous = FULL")
        try db.execute(sql: "CREATE TABLE rows (id INTEGER PRIMARY KEY, bytes BLOB)")
        let insert = try db.makeStatement(sql: "INSERT INTO rows (bytes) VALUES (?)")
        let started = ContinuousClock.now
        for _ in 0..<count { try insert.execute(arguments: [Data(repeating: 7, count: 310)]) }
        return perSecond(count, since: started)
    }
}

private func perSecond(_ count: Int, since start: ContinuousClock.Instant) -> Int {
    Int(Double(count) / ((ContinuousClock.now - start) / .seconds(1)))
}

/// Seconds of processor time this process has used.
private func processorTime() -> Double {
    var usage = rusage()
    getrusage(.init(RUSAGE_SELF.rawValue), &usage)
    let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
    return Double(seconds) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1_000_000
}
