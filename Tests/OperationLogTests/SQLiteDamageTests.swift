import Foundation
import TestSupport
import Testing

@testable import OperationLog

@Suite("SQLite log: damage is detected, named and never served")
struct SQLiteDamageTests {
    @Test(
        "a flipped bit in any column of an entry is told as damage at its offset",
        arguments: [
            "bytes = CAST(x'00' || substr(bytes, 2) AS BLOB)", "actor = actor + 1", "sequence = sequence + 1",
            "timestamp = timestamp | (1 << 40)", "hash = ~hash",
        ])
    func flippedColumn(change: String) async throws {
        let sql = "UPDATE operations SET \(change) WHERE sequence = 5"
        try await withDamagedLog(sql) { log in
            let damage = try await damage { _ = try await readAll(log, step: 100) }
            #expect(damage?.code == .corrupt)
            #expect(damage?.offset == 5)
            #expect(damage?.database == "db")
            let before = try await log.read("db", after: 0, limit: ReadLimit(operations: 4))
            #expect(before.map(\.offset) == [1, 2, 3, 4])
            #expect(try await code { _ = try await log.position(at: 5, in: "db") } == .corrupt)
        }
    }

    @Test("a missing entry is told as damage at its offset")
    func missingEntry() async throws {
        try await withDamagedLog("DELETE FROM operations WHERE sequence = 5") { log in
            let damage = try await damage { _ = try await readAll(log, step: 100) }
            #expect(damage?.code == .corrupt)
            #expect(damage?.offset == 5)
            let from = try await code { _ = try await log.read("db", after: 5, limit: .standard) }
            #expect(from == .corrupt)
        }
    }

    @Test(
        "a head that does not name the last entry is damage, for readers and appends",
        arguments: ["head = 9", "head = 11", "hash = ~hash", "head = -1", "logID = x'00'"])
    func damagedHead(change: String) async throws {
        try await withDamagedLog("UPDATE databases SET \(change)") { log in
            let reading = try await code { _ = try await log.head(of: "db") }
            #expect(reading == .corrupt)
            #expect(try await code { _ = try await log.append([request(1, 11)], to: "db") } == .corrupt)
            #expect(log.status.refusal == nil)
        }
    }

    @Test("damage in one database does not hold back appends to another in the same group")
    func otherDatabase() async throws {
        try await withDamagedLog("UPDATE databases SET hash = ~hash") { log in
            try await log.createDatabase("healthy")
            async let damaged = code { _ = try await log.append([request(1, 11)], to: "db") }
            async let healthy = log.append([request(1, 1)], to: "healthy")
            #expect(try await damaged == .corrupt)
            #expect(try await healthy == [.appended(offset: 1)])
        }
    }

    @Test("a log id that was exchanged is damage")
    func exchangedIdentity() async throws {
        try await withDamagedLog("UPDATE databases SET logID = randomblob(16)") { log in
            let damage = try await damage { _ = try await readAll(log) }
            #expect(damage?.code == .corrupt)
            #expect(damage?.offset == 1)
        }
    }

    @Test("after a flipped bit anywhere in the file readers get an error, or the same entries, never others")
    func flippedAnywhere() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...40, size: 300), to: "db")
            let entries = try await readAll(log)
            await log.close()
            let file = try Data(contentsOf: URL(fileURLWithPath: path))
            var detected = 0
            // A prime step, so that every part of a page and every bit of a byte is hit.
            let step = Depth.pick(fast: 6_007, deep: 499)
            let first = 100 * 8 + Int(Depth.seed) % step
            for bit in stride(from: first, to: file.count * 8, by: step) {
                let damaged = "\(path).\(bit)"
                var copy = file
                copy[bit / 8] ^= 1 << (bit % 8)
                try copy.write(to: URL(fileURLWithPath: damaged))
                let outcome = try await code {
                    let log = try SQLiteOperationLog(path: damaged)
                    let found = try await readAll(log, step: 100)
                    #expect(found == entries, "bit \(bit)")
                    await log.close()
                }
                detected += outcome == nil ? 0 : 1
            }
            #expect(detected > 5)
        }
    }

    @Test(
        "a snapshot of which anything was changed",
        arguments: [
            "UPDATE chunks SET bytes = CAST(x'00' || substr(bytes, 2) AS BLOB) WHERE number = 1",
            "UPDATE chunks SET hash = ~hash WHERE number = 2", "DELETE FROM chunks WHERE number = 0",
            "UPDATE chunks SET bytes = (SELECT bytes FROM chunks WHERE number = 0), "
                + "hash = (SELECT hash FROM chunks WHERE number = 0) WHERE number = 1",
            "UPDATE snapshots SET sum = ~sum", "UPDATE snapshots SET chunks = 2",
            "UPDATE snapshots SET chunks = 4", "UPDATE snapshots SET offset = 4",
            "UPDATE snapshots SET hash = ~hash",
        ])
    func damagedSnapshot(change: String) async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...5), to: "db")
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            for byte in UInt8(1)...3 { try await log.add([byte, byte], to: draft, in: "db") }
            _ = try await log.finish(draft, in: "db")
            try edit(path) { try $0.execute(sql: change) }
            let snapshot = try #require(try await log.snapshot(of: "db"))
            let damage = try await damage { try await log.readSnapshot(snapshot, of: "db") { _ in } }
            #expect(damage?.code == .corruptSnapshot)
            await log.close()
        }
    }

    @Test("truncation stops at an entry that is missing")
    func truncatedDamage() async throws {
        try await withDamagedLog("DELETE FROM operations WHERE sequence = 5") { log in
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            try await log.add([1], to: draft, in: "db")
            _ = try await log.finish(draft, in: "db")
            let damage = try await damage {
                try await log.truncate("db", through: 10, keepingHashesAfter: 0)
            }
            #expect(damage?.code == .corrupt)
            #expect(damage?.offset == 5)
            #expect(try await log.truncation(of: "db").offset == 0)
        }
    }

    @Test("a file that was cut short is damage")
    func truncatedFile() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...50, size: 2_000), to: "db")
            await log.close()
            let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
            try file.truncate(atOffset: 40_960)
            try file.close()
            #expect(try await code { _ = try SQLiteOperationLog(path: path) } == .corrupt)
        }
    }
}

/// Runs the body with a log of ten operations after this statement was run on its file.
private func withDamagedLog(_ sql: String, _ body: (SQLiteOperationLog) async throws -> Void) async throws {
    try await withTemporaryPath { path in
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase("db")
        _ = try await log.append(requests(1, 1...10), to: "db")
        try edit(path) { try $0.execute(sql: sql) }
        try await body(log)
        await log.close()
    }
}

private func damage(_ body: () async throws -> Void) async throws -> OperationLogError? {
    do {
        try await body()
        return nil
    } catch let error as OperationLogError {
        return error
    }
}
