import CRDT
import Foundation
import Testing

@testable import OperationLog

@Suite("SQLite log: wake-ups between openings", .timeLimit(.minutes(5)))
struct WakeUpTests {
    @Test("an append in one opening wakes a waiter in another by the hint alone")
    func hint() async throws {
        var options = SQLiteOperationLog.Options()
        // Nine waits without hints would last longer than the suite may.
        options.pollInterval = .seconds(60)
        try await withTwoLogs(options) { writer, reader, _ in
            for sequence in 1...9 as ClosedRange<UInt64> {
                async let woken: Void = waitForHead(reader, Offset(sequence))
                try await Task.sleep(for: .milliseconds(5))
                _ = try await writer.append([request(1, SequenceNumber(sequence))], to: "db")
                try await woken
            }
        }
    }

    @Test("a writer rings for others that have the log open, and not where it is alone")
    func alone() async throws {
        try await withTemporaryPath { path in
            /// Appends, and returns whether that rang: the bell has a byte then.
            func rings(_ log: SQLiteOperationLog, _ sequence: SequenceNumber) async throws -> Bool {
                #expect(truncate(path + "-wake", 0) == 0)
                _ = try await log.append([request(1, sequence)], to: "db")
                // It is rung a moment later.
                for _ in 0..<20 where try !isRung() { try await Task.sleep(for: LogLimits.ringDelay * 5) }
                return try isRung()
            }
            func isRung() throws -> Bool {
                try FileManager.default.attributesOfItem(atPath: path + "-wake")[.size] as? Int == 1
            }
            func besideAnother(_ log: SQLiteOperationLog) async throws -> Bool {
                let other = try SQLiteOperationLog(path: path)
                let isRung = try await rings(log, 2)
                await other.close()
                return isRung
            }
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            #expect(try await !rings(log, 1))
            #expect(try await besideAnother(log))
            #expect(try await !rings(log, 3))
            await log.close()
        }
    }

    @Test("a lost hint is made up for by polling")
    func lostHint() async throws {
        var options = SQLiteOperationLog.Options()
        options.pollInterval = .milliseconds(20)
        try await withTwoLogs(options, loseHints: true) { writer, reader, _ in
            async let woken: Void = waitForHead(reader, 1)
            try await Task.sleep(for: .milliseconds(50))
            _ = try await writer.append([request(1, 1)], to: "db")
            // It would not end without polling.
            try await woken
        }
    }
}

@Suite("Who is woken by which head", .timeLimit(.minutes(5)))
struct ChangeHubTests {
    @Test("every head but the last announced wakes, also a lower one: a log that went back")
    func heads() async throws {
        // Without a second task, so that nothing here depends on when one runs.
        let hub = ChangeHub()
        var changes = hub.subscribe(to: "db").makeAsyncIterator()
        #expect(await changes.next() != nil)
        for head in [UInt64(5), 3, 4] {
            hub.announce("db", head: Offset(head))
            #expect(await changes.next() != nil)
        }
        hub.announce("db", head: 4)
        hub.announce("other", head: 9)
        hub.finish()
        #expect(await changes.next() == nil)
    }
}

@Suite("What wake-ups bring along")
struct BroughtAlongTests {
    private func entry(_ offset: Offset) -> LogEntry {
        let record = OperationRecord(
            actor: ActorID(1), sequence: SequenceNumber(offset.rawValue), timestamp: offset.rawValue,
            bytes: [1])
        return LogEntry(offset: offset, hash: offset.rawValue, record: record)
    }

    @Test("one that takes the place of another brings nothing: they may have overtaken each other")
    func overtaken() async {
        let hub = ChangeHub()
        var changes = hub.subscribe(to: "db").makeAsyncIterator()
        #expect(await changes.next()?.entries == [])
        hub.announce("db", head: 5, entries: [entry(5)])
        #expect(await changes.next()?.entries.map(\.offset) == [5])
        // Another process's commit is seen before this one's is announced.
        hub.announce("db", head: 7)
        hub.announce("db", head: 6, entries: [entry(6)])
        #expect(await changes.next()?.entries == [])
        hub.announce("db", head: 8, entries: [entry(8)])
        hub.announce("db", head: 9, entries: [entry(9)])
        #expect(await changes.next()?.entries == [])
        hub.announce("db", head: 10, entries: [entry(10)])
        #expect(await changes.next()?.entries.map(\.offset) == [10])
    }

    @Test("of a group they bring what was appended, of each database its own, until it is too much")
    func groups() async throws {
        try await withTemporaryPath { path in
            let file = try SQLiteLogFile(path: path, now: { 0 }, random: { 7 })
            for name in ["db", "other"] { try file.createDatabase(DatabaseID(name), id: .random()) }
            func call(_ requests: [AppendRequest], _ database: DatabaseID = "db") throws -> AppendCall {
                try AppendCall(requests, database: database)
            }
            // A duplicate, a gap and what rests on it are not there.
            let (_, first) = file.commit([
                try call(requests(1, 1...2)),
                try call([request(1, 2), request(1, 3), request(2, 2), request(2, 1), request(3, 1)]),
            ])
            #expect(first.entries == (try file.read("db", after: 0, limit: .standard)))
            #expect(first.entries.map(\.actor.rawValue) == [1, 1, 1, 3])
            let half = OperationRecord(
                actor: ActorID(4), sequence: 1, timestamp: 1,
                bytes: [UInt8](repeating: 1, count: LogLimits.broughtBytes))
            let large = AppendRequest(record: half, authorKey: "key", touches: [])
            let (_, much) = file.commit([try call([large]), try call([request(1, 4)])])
            #expect(much.entries == [])
            #expect(try file.head(of: "db").offset == 6)
            try file.close()
        }
    }
}

/// Returns when the reader's wake-ups and reads have shown it this head.
private func waitForHead(_ log: any OperationLog, _ offset: Offset) async throws {
    for await _ in log.changes(in: "db") where try await log.head(of: "db").offset >= offset { break }
}

/// Two openings of one log. If hints are lost, the two hold different wake files.
private func withTwoLogs(
    _ options: SQLiteOperationLog.Options, loseHints: Bool = false,
    _ body: (_ writer: SQLiteOperationLog, _ reader: SQLiteOperationLog, _ path: String) async throws -> Void
) async throws {
    try await withTemporaryPath { path in
        let reader = try SQLiteOperationLog(path: path, options: options)
        try await reader.createDatabase("db")
        if loseHints { try FileManager.default.removeItem(atPath: path + "-wake") }
        let writer = try SQLiteOperationLog(path: path, options: options)
        try await body(writer, reader, path)
        await writer.close()
        await reader.close()
    }
}
