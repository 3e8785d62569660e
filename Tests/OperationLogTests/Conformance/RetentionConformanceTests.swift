import CRDT
import GRDB
import Synchronization
import Testing

@testable import OperationLog
@testable import Postgres

@Suite("Log contract: snapshots and truncation")
struct RetentionConformanceTests {
    @Test("a snapshot is seen whole when it is finished, and not before", arguments: LogDriver.allCases)
    func snapshot(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            _ = try await log.append(requests(1, 1...5), to: "db")
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            let chunks: [[UInt8]] = [[1, 2, 3], Array(repeating: 7, count: 100_000), [0]]
            for chunk in chunks {
                try await log.add(chunk, to: draft, in: "db")
                _ = try await log.append([request(2, SequenceNumber(UInt64(chunk.count)))], to: "db")
                #expect(try await log.snapshot(of: "db") == nil)
            }
            let snapshot = try await log.finish(draft, in: "db")
            let other = try openAnother()
            #expect(try await other.snapshot(of: "db") == snapshot)
            #expect(snapshot.position.offset == 5)
            #expect((snapshot.chunks, snapshot.bytes) == (3, 100_004))
            #expect(try await read(snapshot, other) == chunks)
            await other.close()
        }
    }

    @Test("the next snapshot takes the place of the one before", arguments: LogDriver.allCases)
    func successor(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...5), to: "db")
            let first = try await write([[1]], at: 2, log)
            let abandoned = try await log.beginSnapshot(of: "db", at: try #require(try await place(3, log)))
            try await log.add([9], to: abandoned, in: "db")
            let second = try await write([[2], [3]], at: 4, log)
            #expect(second.number > first.number)
            #expect(try await log.snapshot(of: "db") == second)
            #expect(try await read(second, log) == [[2], [3]])
            #expect(try await code { _ = try await log.chunk(0, of: first, in: "db") } == .noSnapshot)
            #expect(try await code { try await log.add([1], to: abandoned, in: "db") } == .noSnapshot)
            #expect(try await code { _ = try await log.finish(abandoned, in: "db") } == .noSnapshot)
            #expect(try await code { _ = try await log.chunk(2, of: second, in: "db") } == .corruptSnapshot)
        }
    }

    @Test("a draft never takes the place of a snapshot further on", arguments: LogDriver.allCases)
    func overtaken(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...5), to: "db")
            let newer = try await write([[1]], at: 4, log)
            let older = try await log.beginSnapshot(of: "db", at: try #require(try await place(2, log)))
            try await log.add([9], to: older, in: "db")
            #expect(try await code { _ = try await log.finish(older, in: "db") } == .noSnapshot)
            #expect(try await log.snapshot(of: "db") == newer)
            #expect(try await read(newer, log) == [[1]])
        }
    }

    @Test("what is written can be read back before it counts", arguments: LogDriver.allCases)
    func readBack(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...5), to: "db")
            let before = try await write([[9]], at: 3, log)
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            var sum = SnapshotSum.start(draft.position)
            for chunk in [[1, 2], [3]] as [[UInt8]] {
                try await log.add(chunk, to: draft, in: "db")
                sum = SnapshotSum.next(after: sum, chunk: SnapshotSum.chunk(chunk))
            }
            func written(_ checksum: UInt64) -> LogSnapshot {
                LogSnapshot(
                    number: draft.number, position: draft.position, chunks: 2, bytes: 3, checksum: checksum)
            }
            #expect(try await read(written(sum), log) == [[1, 2], [3]])
            #expect(try await code { _ = try await read(written(~sum), log) } == .noSnapshot)
            #expect(try await log.snapshot(of: "db") == before)
            #expect(try await log.finish(draft, in: "db") == written(sum))
        }
    }

    @Test("a place that the log does not have is not snapshotted", arguments: LogDriver.allCases)
    func foreignPlace(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...5), to: "db")
            let head = try await log.head(of: "db")
            let foreign = LogPosition(logID: head.logID, offset: 5, hash: ~head.hash)
            #expect(
                try await code { _ = try await log.beginSnapshot(of: "db", at: foreign) } == .offsetBeyondHead
            )
            let draft = try await log.beginSnapshot(of: "db", at: head)
            #expect(try await code { try await log.add([], to: draft, in: "db") } == .invalidRequest)
        }
    }

    @Test(
        "truncation needs a snapshot, and then removes exactly what it stands for",
        arguments: LogDriver.allCases)
    func truncation(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            _ = try await log.append(requests(1, 1...20), to: "db")
            let entries = try await readAll(log)
            let before = try await code { try await truncate(log, through: 5) }
            #expect(before == .noSnapshot)
            _ = try await write([[1]], at: 10, log)
            #expect(try await code { try await truncate(log, through: 11) } == .noSnapshot)
            #expect(try await log.truncation(of: "db").offset == 0)
            try await truncate(log, through: 8)
            try await truncate(log, through: 8)
            try await truncate(log, through: 3)
            let other = try openAnother()
            #expect(try await other.truncation(of: "db") == place(8, log))
            #expect(try await other.read("db", after: 8, limit: .standard) == Array(entries.dropFirst(8)))
            let refusal = try await failure { _ = try await other.read("db", after: 7, limit: .standard) }
            #expect(refusal?.code == .truncated)
            #expect(refusal?.offset == 10)
            await other.close()
        }
    }

    @Test("everything may be removed, and the log goes on", arguments: LogDriver.allCases)
    func whole(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            _ = try await log.append(requests(1, 1...6), to: "db")
            let head = try await log.head(of: "db")
            _ = try await write([[1]], at: 6, log)
            try await truncate(log, through: 6)
            #expect(try await log.head(of: "db") == head)
            #expect(try await log.read("db", after: 6, limit: .standard).isEmpty)
            let outcomes = try await log.append([request(1, 6), request(1, 7)], to: "db")
            #expect(outcomes == [.duplicate(through: 6), .appended(offset: 7)])
            #expect(try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence == 7)
            let other = try openAnother()
            #expect(try await other.read("db", after: 6, limit: .standard).map(\.offset) == [7])
            #expect(try await other.append([request(1, 8)], to: "db") == [.appended(offset: 8)])
            await other.close()
        }
    }

    @Test("cursors are checked behind the truncation, down to the floor", arguments: LogDriver.allCases)
    func keptHashes(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...30), to: "db")
            var places: [LogPosition?] = []
            for offset in 0...30 { places.append(try await place(Offset(UInt64(offset)), log)) }
            _ = try await write([[1]], at: 30, log)
            for end in [7, 20, 25] as [Offset] { try await truncate(log, through: end) }
            for offset in 0...30 { #expect(try await place(Offset(UInt64(offset)), log) == places[offset]) }
            try await log.truncate("db", through: 25, keepingHashesAfter: 20)
            for offset in [0, 21, 24, 25, 26, 30] {
                #expect(try await place(Offset(UInt64(offset)), log) == places[offset])
            }
            for offset in [1, 7, 19, 20] { #expect(try await place(Offset(UInt64(offset)), log) == nil) }
        }
    }

    @Test("more entries than one step removes go in steps", arguments: LogDriver.allCases)
    func manySteps(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let count = Offset(UInt64(LogLimits.remoteTruncationStep + 100))
            for start in stride(from: 1, through: UInt64(count.rawValue), by: 1_000) {
                _ = try await log.append(requests(1, start...min(count.rawValue, start + 999)), to: "db")
            }
            let places = [try await place(1, log), try await place(4_097, log), try await place(count, log)]
            _ = try await write([[1]], at: count, log)
            try await truncate(log, through: count)
            #expect(try await place(1, log) == places[0])
            #expect(try await place(4_097, log) == places[1])
            #expect(try await log.head(of: "db") == places[2])
            #expect(
                try await log.append([request(1, SequenceNumber(count.next.rawValue))], to: "db") == [
                    .appended(offset: count.next)
                ])
        }
    }

    @Test("a condition that was read behind the truncation is a breach", arguments: LogDriver.allCases)
    func conditions(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let touch = Touch(rawValue: 77)
            _ = try await log.append([request(1, 1, touches: [touch])] + requests(1, 2...10), to: "db")
            _ = try await write([[1]], at: 8, log)
            try await truncate(log, through: 8)
            func outcome(_ readAt: UInt64, _ actor: UInt64) async throws -> AppendOutcome? {
                let condition = AppendCondition(readAt: Offset(readAt), reads: [touch])
                return try await log.append([request(actor, 1, condition: condition)], to: "db").first
            }
            #expect(try await outcome(7, 2) == .conflict(.condition(offset: 8)))
            // The beginning is no exception: what was touched there may have been removed.
            #expect(try await outcome(0, 2) == .conflict(.condition(offset: 8)))
            #expect(try await outcome(8, 3) == .appended(offset: 11))
            _ = try await log.append([request(4, 1, touches: [touch])], to: "db")
            #expect(try await outcome(11, 5) == .conflict(.condition(offset: 12)))
        }
    }

    @Test(
        "a read beside a truncation is answered or told of it, and never told of damage",
        arguments: LogDriver.allCases)
    func readsBeside(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            _ = try await log.append(requests(1, 1...60), to: "db")
            _ = try await write([[1]], at: 60, log)
            let cut = Mutex(Offset(0))
            let reading = Task {
                while cut.withLock({ $0 }) < 60 {
                    let next = cut.withLock { $0 }
                    let failed = try await code { _ = try await other.read("db", after: next) }
                    #expect(failed == nil || failed == .truncated)
                    let missed = try await code { _ = try await other.position(at: next.next, in: "db") }
                    #expect(missed == nil)
                }
            }
            for end in Offset(1)...60 {
                try await truncate(log, through: end)
                cut.withLock { $0 = end }
            }
            try await reading.value
            await other.close()
        }
    }

    @Test(
        "what the index of last offsets need not know any more goes in pieces", arguments: LogDriver.allCases)
    func manyTouches(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let bits = (0..<30_000).map { UInt64($0) &* 0x9E37_79B9_7F4A_7C15 }
            let touches = bits.map { Touch(rawValue: $0) }
            for (number, start) in stride(from: 0, to: touches.count, by: 10_000).enumerated() {
                let part = Array(touches[start..<start + 10_000])
                _ = try await log.append(
                    [request(1, SequenceNumber(UInt64(number + 1)), touches: part)], to: "db")
            }
            _ = try await log.append([request(1, 4, touches: [touches[5], touches[29_999]])], to: "db")
            _ = try await write([[1]], at: 3, log)
            let commits = (log as? SQLiteOperationLog).map { CommitSizes($0) }
            try await truncate(log, through: 3)
            #expect(commits?.greatest ?? 0 <= 10_000)
            func outcome(_ touch: Touch, _ actor: UInt64) async throws -> AppendOutcome? {
                let condition = AppendCondition(readAt: 3, reads: [touch])
                return try await log.append([request(actor, 1, condition: condition)], to: "db").first
            }
            #expect(try await outcome(touches[5], 2) == .conflict(.condition(offset: 4)))
            #expect(try await outcome(touches[29_999], 3) == .conflict(.condition(offset: 4)))
            #expect(try await outcome(touches[6], 4) == .appended(offset: 5))
            if let log = log as? PostgresOperationLog { #expect(try await log.indexedTouches() == 2) }
        }
    }

    @Test("a moved write goes into a truncated log, and its copy does not", arguments: LogDriver.allCases)
    func movedWrites(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...10), to: "db")
            _ = try await write([[1]], at: 10, log)
            try await truncate(log, through: 10)
            func moved(to actor: UInt64, readAt: UInt64) -> AppendRequest {
                request(
                    actor, 1, touches: [.origin(77)],
                    condition: AppendCondition(readAt: Offset(readAt), reads: [.origin(77)]))
            }
            let both = [moved(to: 2, readAt: 10), moved(to: 3, readAt: 10)]
            let outcomes = try await log.append(both, to: "db")
            #expect(outcomes == [.appended(offset: 11), .conflict(.condition(offset: 11))])
            #expect(
                try await log.append([moved(to: 4, readAt: 10)], to: "db")
                    == [.conflict(.condition(offset: 11))])
        }
    }

    @Test("another database is not touched by any of it", arguments: LogDriver.allCases)
    func otherDatabase(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await log.createDatabase("second")
            _ = try await log.append(requests(1, 1...9), to: "db")
            _ = try await log.append(requests(1, 1...9), to: "second")
            let entries = try await readAll(log, "second")
            _ = try await write([[1]], at: 9, log)
            try await truncate(log, through: 9)
            #expect(try await readAll(log, "second") == entries)
            #expect(try await log.snapshot(of: "second") == nil)
            #expect(try await log.truncation(of: "second").offset == 0)
            // Nor does one database's memory of its cursors reach into the next one's.
            let draft = try await log.beginSnapshot(of: "second", at: try await log.head(of: "second"))
            try await log.add([1], to: draft, in: "second")
            _ = try await log.finish(draft, in: "second")
            try await log.truncate("second", through: 9, keepingHashesAfter: 9)
            #expect(try await log.position(at: 5, in: "second") == nil)
            #expect(try await log.position(at: 5, in: "db") != nil)
        }
    }

    private func place(_ offset: Offset, _ log: any OperationLog) async throws -> LogPosition? {
        try await log.position(at: offset, in: "db")
    }

    private func truncate(_ log: any OperationLog, through offset: Offset) async throws {
        try await log.truncate("db", through: offset, keepingHashesAfter: 0)
    }

    private func write(
        _ chunks: [[UInt8]], at offset: Offset, _ log: any OperationLog
    ) async throws -> LogSnapshot {
        let draft = try await log.beginSnapshot(of: "db", at: try #require(try await place(offset, log)))
        for chunk in chunks { try await log.add(chunk, to: draft, in: "db") }
        return try await log.finish(draft, in: "db")
    }

    private func read(_ snapshot: LogSnapshot, _ log: any OperationLog) async throws -> [[UInt8]] {
        var chunks: [[UInt8]] = []
        try await log.readSnapshot(snapshot, of: "db") { chunks.append($0) }
        return chunks
    }

    private func failure(_ body: () async throws -> Void) async throws -> OperationLogError? {
        do {
            try await body()
            return nil
        } catch let error as OperationLogError {
            return error
        }
    }
}

/// How many rows the largest of a SQLite log's transactions has changed.
private final class CommitSizes: TransactionObserver, Sendable {
    private let state = Mutex((last: 0, greatest: 0))

    init(_ log: SQLiteOperationLog) {
        log.pool.add(transactionObserver: self, extent: .observerLifetime)
    }

    var greatest: Int { state.withLock { $0.greatest } }
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) {
        let total = db.totalChangesCount
        state.withLock { state in
            state.greatest = state.last == 0 ? 0 : max(state.greatest, total - state.last)
            state.last = total
        }
    }
    func databaseDidRollback(_ db: Database) {}
}

extension PostgresOperationLog {
    /// How many touches the index of last offsets holds. (SQLite's is in memory.)
    fileprivate func indexedTouches() async throws -> Int {
        try await reading {
            Int(try $0.query("SELECT count(*) FROM mimeo_log.touched").int8(0, 0))
        }
    }
}
