import CRDT
import Foundation
import GRDB
import Testing

@testable import OperationLog

@Suite("SQLite log: the file")
struct SQLiteFileTests {
    @Test("the writer syncs every commit (synchronous = FULL) in write-ahead mode")
    func synchronousFull() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            let (level, mode) = try log.pool.unsafeReentrantWrite { db in
                (
                    try Int.fetchOne(db, sql: "PRAGMA synchronous"),
                    try String.fetchOne(db, sql: "PRAGMA journal_mode")
                )
            }
            #expect(level == 2)
            #expect(mode == "wal")
            await log.close()
        }
    }

    @Test("the format of a file is read without a change, and a missing or empty file has none")
    func storedFormat() async throws {
        try await withTemporaryPath { path in
            #expect(try SQLiteOperationLog.storedFormat(path: path) == nil)
            try edit(path) { db in
                try db.execute(sql: "CREATE TABLE databases (id TEXT)")
                try db.execute(sql: "PRAGMA application_id = \(LogSchema.applicationID)")
                try db.execute(sql: "PRAGMA user_version = 3")
            }
            let found = try #require(try SQLiteOperationLog.storedFormat(path: path))
            #expect(found.stored == 3 && found.isTooOld && !found.isOlder)
            #expect(try SQLiteOperationLog.storedFormat(path: path) == found)
            try FileManager.default.removeItem(atPath: path)
            let log = try SQLiteOperationLog(path: path)
            let made = try #require(try SQLiteOperationLog.storedFormat(path: path))
            #expect(made.stored == made.current && !made.isTooOld && !made.isOlder)
            await log.close()
            // Whatever the system refuses is not foreign.
            let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
            let error = #expect(throws: OperationLogError.self) {
                try SQLiteOperationLog.storedFormat(path: folder)
            }
            #expect(error?.code == .cannotOpen)
        }
    }

    @Test(
        "a file of a newer or an older format is refused and left unchanged",
        arguments: [99, LogSchema.oldestVersion - 1, 1])
    func otherFormat(_ version: Int64) async throws {
        try await withTemporaryPath { path in
            await (try SQLiteOperationLog(path: path)).close()
            try edit(path) { db in
                try db.execute(sql: "PRAGMA user_version = \(version)")
                try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            }
            try await expectRefused(path, .unsupportedFormat)
        }
    }

    @Test("a database of another application is refused and left unchanged")
    func foreignDatabase() async throws {
        try await withTemporaryPath { path in
            try edit(path) { try $0.execute(sql: "CREATE TABLE databases (id TEXT)") }
            try await expectRefused(path, .notAnOperationLog)
        }
    }

    @Test("a file that is no database is refused and left unchanged")
    func noDatabase() async throws {
        try await withTemporaryPath { path in
            try Data(repeating: 0x41, count: 9_000).write(to: URL(fileURLWithPath: path))
            try await expectRefused(path, .notAnOperationLog)
        }
    }

    @Test("a log in a folder that does not exist cannot be opened")
    func missingFolder() async throws {
        try await withTemporaryPath { path in
            let refusal = try await code { _ = try SQLiteOperationLog(path: path + "/no/log.sqlite") }
            #expect(refusal == .cannotOpen)
        }
    }

    @Test("many openings of a fresh file at once all succeed")
    func openingAtOnce() async throws {
        try await withTemporaryPath { path in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 as Range<UInt64> {
                    group.addTask {
                        let log = try SQLiteOperationLog(path: path)
                        try await log.createDatabase("db")
                        _ = try await log.append([request(number, 1)], to: "db")
                        await log.close()
                    }
                }
                try await group.waitForAll()
            }
            let log = try SQLiteOperationLog(path: path)
            #expect(try await readAll(log).map(\.offset) == Array(1...8))
            await log.close()
        }
    }

    @Test("what was acknowledged is in the files at once: a copy of them, as after a crash, has it all")
    func abruptEnd() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...50, size: 500), to: "db")
            let copy = path + ".copy"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            let survivor = try SQLiteOperationLog(path: copy)
            let (found, written) = (try await readAll(survivor), try await readAll(log))
            #expect(found == written)
            #expect(try await survivor.append([request(1, 51)], to: "db") == [.appended(offset: 51)])
            await survivor.close()
            await log.close()
        }
    }

    @Test("a log that is dropped without closing can be opened again")
    func dropped() async throws {
        try await withTemporaryPath { path in
            _ = try await appendToDroppedLog(path)
            let log = try SQLiteOperationLog(path: path)
            #expect(try await log.head(of: "db").offset == 3)
            await log.close()
        }
    }

    @Test("closing gives back every descriptor of the log's files")
    func descriptors() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...3), to: "db")
            _ = try await readAll(log)
            #expect(openDescriptors(of: path) > 0)
            await log.close()
            _ = consume log
            #expect(try await eventually { openDescriptors(of: path) == 0 })
        }
    }
}

private func appendToDroppedLog(_ path: String) async throws -> [AppendOutcome] {
    let log = try SQLiteOperationLog(path: path)
    try await log.createDatabase("db")
    return try await log.append(requests(1, 1...3), to: "db")
}

private func expectRefused(_ path: String, _ expected: OperationLogErrorCode) async throws {
    let before = try Data(contentsOf: URL(fileURLWithPath: path))
    #expect(try await code { _ = try SQLiteOperationLog(path: path) } == expected)
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
}

private func openDescriptors(of path: String) -> Int {
    let folder = "/proc/self/fd"
    let numbers = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    let targets = numbers.map {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
    }
    return targets.filter { $0?.hasPrefix(path) == true }.count
}
