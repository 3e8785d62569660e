import CRDT
import Testing

@testable import OperationLog

@Suite("Log contract: databases, reading, positions")
struct ReadConformanceTests {
    @Test("a database is created once and listed in order", arguments: LogDriver.allCases)
    func databases(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            #expect(try await log.createDatabase("second"))
            #expect(try await log.createDatabase("second") == false)
            let other = try openAnother()
            #expect(try await other.databases() == ["db", "second"])
            #expect(try await other.databaseExists("second"))
            #expect(try await other.databaseExists("third") == false)
            #expect(try await other.databaseExists("../etc") == false)
            await other.close()
        }
    }

    @Test("an id that could not name a folder is refused", arguments: LogDriver.allCases)
    func invalidIDs(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let long = String(repeating: "x", count: LogLimits.databaseIDCharacters + 1)
            for id in ["", ".", "..", "-a", "a/b", "a b", "\u{E9}", "a\u{0}", long] {
                #expect(
                    try await code { _ = try await log.createDatabase(DatabaseID(id)) } == .invalidDatabaseID)
            }
            let isCreated = try await log.createDatabase("7a.B_c-d")
            #expect(isCreated)
        }
    }

    @Test("an unknown database is refused everywhere", arguments: LogDriver.allCases)
    func unknownDatabase(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let refusals = [
                try await code { _ = try await log.append([request(1, 1)], to: "no") },
                try await code { _ = try await log.head(of: "no") },
                try await code { _ = try await log.position(at: 0, in: "no") },
                try await code { _ = try await log.frontier(of: [], in: "no") },
                try await code { _ = try await log.read("no", after: 0, limit: .standard) },
            ]
            #expect(refusals == Array(repeating: .unknownDatabase, count: 5))
        }
    }

    @Test("databases have offsets, frontiers and identities of their own", arguments: LogDriver.allCases)
    func separateDatabases(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await log.createDatabase("second")
            _ = try await log.append(requests(1, 1...5), to: "db")
            #expect(try await log.append([request(1, 1)], to: "second") == [.appended(offset: 1)])
            let (first, second) = (try await log.head(of: "db"), try await log.head(of: "second"))
            #expect(first.logID != second.logID)
            #expect((first.offset, second.offset) == (5, 1))
            #expect(try await readAll(log, "second").map(\.sequence) == [1])
            #expect(try await readAll(log, "db").map(\.sequence) == [1, 2, 3, 4, 5])
        }
    }

    @Test("the chain hash can be computed from the log id and the operations", arguments: LogDriver.allCases)
    func chain(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let start = try await log.head(of: "db")
            #expect(start.offset == 0)
            #expect(start.hash == ChainHash.start(start.logID))
            _ = try await log.append(requests(1, 1...4), to: "db")
            var hash = start.hash
            for entry in try await readAll(log) {
                let digest = ChainHash.digest(
                    actor: entry.actor, sequence: entry.sequence, timestamp: entry.timestamp,
                    contentHash: ChainHash.content(entry.bytes))
                hash = ChainHash.next(after: hash, digest: digest)
                #expect(entry.hash == hash)
            }
            #expect(try await log.head(of: "db") == LogPosition(logID: start.logID, offset: 4, hash: hash))
        }
    }

    @Test("a position is what the head was at that offset, and nil beyond it", arguments: LogDriver.allCases)
    func positions(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            var heads = [try await log.head(of: "db")]
            for sequence in 1...3 as ClosedRange<UInt64> {
                _ = try await log.append([request(1, SequenceNumber(sequence))], to: "db")
                heads.append(try await log.head(of: "db"))
            }
            for head in heads { #expect(try await log.position(at: head.offset, in: "db") == head) }
            #expect(Set(heads.map(\.hash)).count == 4)
            #expect(try await log.position(at: 4, in: "db") == nil)
            #expect(try await log.position(at: .max, in: "db") == nil)
        }
    }

    @Test("reading at the head is empty, beyond it an error", arguments: LogDriver.allCases)
    func readingAtTheEnd(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...2), to: "db")
            #expect(try await log.read("db", after: 2, limit: .standard).isEmpty)
            let beyond = try await code { _ = try await log.read("db", after: 3, limit: .standard) }
            #expect(beyond == .offsetBeyondHead)
        }
    }

    @Test("a read keeps its limits but always makes progress", arguments: LogDriver.allCases)
    func limits(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...6, size: 1_000), to: "db")
            let three = try await log.read("db", after: 1, limit: ReadLimit(operations: 3))
            #expect(three.map(\.offset) == [2, 3, 4])
            let byBytes = try await log.read("db", after: 0, limit: ReadLimit(bytes: 2_500))
            #expect(byBytes.map(\.offset) == [1, 2])
            let tiny = try await log.read("db", after: 5, limit: ReadLimit(bytes: 1))
            #expect(tiny.map(\.offset) == [6])
        }
    }

    @Test("everything is there after opening again", arguments: LogDriver.allCases)
    func reopening(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            _ = try await log.append(requests(1, 1...20), to: "db")
            let (head, entries) = (try await log.head(of: "db"), try await readAll(log))
            await log.close()
            let again = try openAnother()
            #expect(try await again.head(of: "db") == head)
            #expect(try await readAll(again) == entries)
            #expect(try await again.append([request(1, 21)], to: "db") == [.appended(offset: 21)])
            await again.close()
        }
    }

    @Test("a closed log refuses everything, and closing again is harmless", arguments: LogDriver.allCases)
    func closed(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            await log.close()
            await log.close()
            let refusals = [
                try await code { _ = try await log.append([request(1, 1)], to: "db") },
                try await code { _ = try await log.createDatabase("new") },
                try await code { _ = try await log.head(of: "db") },
            ]
            #expect(refusals == Array(repeating: .closed, count: 3))
            #expect(log.status.refusal?.code == .closed)
        }
    }
}
