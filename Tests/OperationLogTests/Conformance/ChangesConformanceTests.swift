import CRDT
import Testing

@testable import OperationLog

@Suite("Log contract: wake-ups")
struct ChangesConformanceTests {
    @Test(
        "a reader that follows the wake-ups sees every append of its own opening",
        arguments: LogDriver.allCases)
    func following(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            async let offsets = follow(log, until: 30)
            for sequence in 1...30 as ClosedRange<UInt64> {
                _ = try await log.append([request(1, SequenceNumber(sequence))], to: "db")
            }
            #expect(try await offsets == Array(1...30))
        }
    }

    @Test(
        "a reader that follows the wake-ups sees every append of another opening",
        arguments: LogDriver.allCases)
    func followingAnother(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            async let offsets = follow(log, until: 30)
            for sequence in 1...30 as ClosedRange<UInt64> {
                _ = try await other.append([request(1, SequenceNumber(sequence))], to: "db")
            }
            #expect(try await offsets == Array(1...30))
            await other.close()
        }
    }

    @Test("what a wake-up brings along is what a read gives", arguments: LogDriver.allCases)
    func brought(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            var changes = log.changes(in: "db").makeAsyncIterator()
            #expect(await changes.next()?.entries == [])
            var isEverBrought = false
            for round in 0..<10 as Range<UInt64> {
                let before = try await log.head(of: "db").offset
                _ = try await log.append(requests(1, 3 * round + 1...3 * round + 3), to: "db")
                let entries = try #require(await changes.next()).entries
                isEverBrought = isEverBrought || !entries.isEmpty
                if !entries.isEmpty { #expect(try await log.read("db", after: before) == entries) }
            }
            #expect(isEverBrought == (driver == .sqlite))
        }
    }

    @Test("what is much is not brought along")
    func tooMuch() async throws {
        try await LogDriver.sqlite.withLog { log, _ in
            var changes = log.changes(in: "db").makeAsyncIterator()
            #expect(await changes.next()?.entries == [])
            let record = OperationRecord(
                actor: ActorID(1), sequence: 1, timestamp: 1,
                bytes: [UInt8](repeating: 7, count: LogLimits.broughtBytes + 1))
            _ = try await log.append([AppendRequest(record: record, authorKey: "key", touches: [])], to: "db")
            #expect(await changes.next()?.entries == [])
        }
    }

    @Test("an append in one database does not wake another's readers", arguments: LogDriver.allCases)
    func unrelated(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await log.createDatabase("quiet")
            var quiet = log.changes(in: "quiet").makeAsyncIterator()
            #expect(await quiet.next() != nil)
            _ = try await log.append(requests(1, 1...3), to: "db")
            await log.close()
            #expect(await quiet.next() == nil)
        }
    }

    @Test("closing ends the streams, also those asked for later", arguments: LogDriver.allCases)
    func closing(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            async let count = drain(log.changes(in: "db"))
            await log.close()
            #expect(await count <= 1)
            #expect(await drain(log.changes(in: "db")) == 0)
        }
    }
}

/// The offsets a reader sees that reads until empty at every wake-up, up to one.
private func follow(_ log: any OperationLog, until last: Offset) async throws -> [Offset] {
    var offsets: [Offset] = []
    for await _ in log.changes(in: "db") {
        offsets += try await log.read("db", after: offsets.last ?? 0, limit: .standard).map(\.offset)
        if offsets.last == last { break }
    }
    return offsets
}

private func drain(_ changes: AsyncStream<LogChange>) async -> Int {
    var count = 0
    for await _ in changes { count += 1 }
    return count
}
