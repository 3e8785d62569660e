import CRDT
import Foundation
import OperationLog
import Testing

@testable import Postgres

/// Figures, printed beside their reference from the same run. Run alone, in a release build:
/// `MIMEO_MEASURE=1 scripts/with-postgres swift test -c release -Xswiftc -enable-testing --filter
/// PostgresLogMeasurement`
@Suite(
    "Measured in PostgreSQL, not judged", .serialized,
    .enabled(if: isMeasuring && TestDatabase.serverURL != nil))
struct PostgresLogMeasurement {
    @Test("one appender and sixty-four, against a bare loop of single-row inserts with the same durability")
    func groupCommit() async throws {
        try await TestDatabase.use { url in
            let bare = try bareLoop(url, count: 1_000)
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let one = try await rate(log, appenders: 1, operations: 1_000, firstActor: 1)
            let many = try await rate(log, appenders: 64, operations: 300, firstActor: 100)
            let again = try bareLoop(url, count: 1_000)
            var latencies: [Duration] = []
            let reader = try PostgresOperationLog(url: url)
            for sequence in 1...50 as ClosedRange<UInt64> {
                latencies.append(
                    try await visibility(from: log, in: reader, sequence: SequenceNumber(sequence)))
            }
            let median = latencies.sorted()[latencies.count / 2]
            print(
                "bare loop \(bare)/s and \(again)/s, 1 appender \(one)/s, 64 appenders \(many)/s;",
                "append to seen by another opening, median \(median)")
            #expect(try await log.head(of: "db").offset.rawValue == 1_000 + 64 * 300 + 50)
            await reader.close()
            await log.close()
        }
    }
}

private let isMeasuring = ProcessInfo.processInfo.environment["MIMEO_MEASURE"] != nil

/// Operations per second of appenders that each append one operation a call of 300 bytes.
private func rate(
    _ log: PostgresOperationLog, appenders: UInt64, operations: UInt64, firstActor: UInt64
) async throws -> Int {
    let started = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
        for actor in firstActor..<firstActor + appenders {
            group.addTask {
                for sequence in 1...operations {
                    _ = try await log.append([record(actor, SequenceNumber(sequence), size: 300)], to: "db")
                }
            }
        }
        try await group.waitForAll()
    }
    return perSecond(Int(appenders * operations), since: started)
}

private func bareLoop(_ url: String, count: Int) throws -> Int {
    let connection = try Connection(url: url)
    try connection.run("CREATE TABLE IF NOT EXISTS bare (id int8 GENERATED ALWAYS AS IDENTITY, bytes bytea)")
    let started = ContinuousClock.now
    for _ in 0..<count {
        _ = try connection.query(
            "INSERT INTO bare (bytes) VALUES ($1)", [.bytes([UInt8](repeating: 7, count: 310))])
    }
    return perSecond(count, since: started)
}

/// From before an append to when another opening's follower has read it.
private func visibility(
    from log: PostgresOperationLog, in reader: PostgresOperationLog, sequence: SequenceNumber
) async throws -> Duration {
    let head = try await reader.head(of: "db").offset
    var changes = reader.changes(in: "db").makeAsyncIterator()
    _ = await changes.next()
    let started = ContinuousClock.now
    _ = try await log.append([record(9_999, sequence)], to: "db")
    while try await reader.read("db", after: head).isEmpty { _ = await changes.next() }
    return ContinuousClock.now - started
}

private func perSecond(_ count: Int, since start: ContinuousClock.Instant) -> Int {
    Int(Double(count) / ((ContinuousClock.now - start) / .seconds(1)))
}
