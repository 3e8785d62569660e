import CRDT
import Foundation
import GRDB
import Testing

@testable import OperationLog
@testable import Postgres

@Suite("Log contract: erasure of databases")
struct ErasureConformanceTests {
    @Test(
        "an erased database is unknown to every process, and to writers that knew its head",
        arguments: LogDriver.allCases)
    func unknown(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            _ = try await log.append(requests(1, 1...5), to: "db")
            _ = try await other.append(requests(2, 1...3), to: "db")
            try await log.createDatabase("rest")
            _ = try await other.append(requests(1, 1...2), to: "rest")
            #expect(try await log.eraseDatabase("db") == 8)
            for log in [log, other] {
                #expect(
                    try await code { _ = try await log.append(requests(2, 4...4), to: "db") }
                        == .unknownDatabase)
                #expect(try await code { _ = try await log.read("db", after: 0) } == .unknownDatabase)
                #expect(try await code { _ = try await log.head(of: "db") } == .unknownDatabase)
                #expect(try await log.databaseExists("db") == false)
                #expect(try await log.databases() == ["rest"])
                #expect(try await log.append(requests(3, 1...1), to: "rest").count == 1)
            }
            // Two appends of one actor: the second is a duplicate.
            #expect(try await readAll(log, "rest").map(\.offset) == [1, 2, 3])
            #expect(try await log.eraseDatabase("db") == nil)
            #expect(try await log.eraseDatabase("nobody") == nil)
            #expect(try await log.eraseDatabase("erased:1") == nil)
            await other.close()
        }
    }

    @Test(
        "a database made again under the id has another identity and begins at offset 1",
        arguments: LogDriver.allCases)
    func again(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            _ = try await log.append(requests(1, 1...5), to: "db")
            let before = try await other.head(of: "db")
            try await log.eraseDatabase("db")
            #expect(try await other.createDatabase("db"))
            #expect(try await log.head(of: "db").logID != before.logID)
            #expect(try await log.append(requests(1, 1...1), to: "db") == [.appended(offset: 1)])
            #expect(
                try await other.append(requests(1, 1...2), to: "db") == [
                    .duplicate(through: 1), .appended(offset: 2),
                ])
            #expect(try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence == 2)
            await other.close()
        }
    }

    @Test("snapshots, leases and hashes go with it; those of others stay", arguments: LogDriver.allCases)
    func everything(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await log.createDatabase("rest")
            for database: DatabaseID in ["db", "rest"] {
                _ = try await log.append(requests(1, 1...9), to: database)
                let draft = try await log.beginSnapshot(of: database, at: try await log.head(of: database))
                for chunk in 0..<(LogLimits.droppedChunks + 3) {
                    try await log.add([UInt8(chunk)], to: draft, in: database)
                }
                _ = try await log.finish(draft, in: database)
                try await log.truncate(database, through: 4, keepingHashesAfter: 0)
                _ = try await log.lease("test", of: 1, for: .seconds(60), in: database)
            }
            try await log.eraseDatabase("db")
            #expect(try await log.snapshot(of: "rest")?.position.offset == 9)
            #expect(try await readAll(log, "rest", after: 4).count == 5)
            #expect(try await log.position(at: 2, in: "rest") != nil)
            #expect(try await log.lease("test", of: 1, for: .seconds(60), in: "rest") == nil)
            try await log.createDatabase("db")
            #expect(try await log.snapshot(of: "db") == nil)
            #expect(try await log.lease("test", of: 1, for: .seconds(60), in: "db") != nil)
        }
    }

    @Test("no byte of an erased or truncated entry is left in the SQLite log's files")
    func bytes() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            for database: DatabaseID in ["db", "rest"] { try await log.createDatabase(database) }
            for sequence in 1...300 {
                let text = "\(secret)-\(sequence)"
                _ = try await log.append(
                    [request(1, SequenceNumber(UInt64(sequence)), text: text, size: sequence * 31)], to: "db")
                _ = try await log.append(
                    [request(1, SequenceNumber(UInt64(sequence)), text: "kept")], to: "rest")
            }
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            try await log.add(Array("\(secret) in a snapshot".utf8), to: draft, in: "db")
            _ = try await log.finish(draft, in: "db")
            #expect(try occurrences(path) > 300)
            try await log.truncate("db", through: 300, keepingHashesAfter: 0)
            try await log.scrub()
            #expect(try occurrences(path) == 1)
            try await log.eraseDatabase("db")
            #expect(try occurrences(path) == 0)
            #expect(try await readAll(log, "rest").count == 300)
            await log.close()
            // Every page that was overwritten has the sum of what it holds now, and serves again.
            let next = try SQLiteOperationLog(path: path)
            #expect(
                try await next.reading { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"])
            for sequence in UInt64(301)...600 {
                _ = try await next.append([request(1, SequenceNumber(sequence), size: 900)], to: "rest")
            }
            #expect(try await readAll(next, "rest").count == 600)
            await next.close()
        }
    }

    @Test("an erasure that was interrupted is ended by the next one, of whatever database")
    func interrupted() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append([request(1, 1, text: secret)], to: "db")
            _ = try await log.writing { writer throws(LogWriter.Failure) in
                try writer.change { try LogErasure.begin($0, "db") }
            }
            #expect(try await log.databaseExists("db") == false)
            #expect(try occurrences(path) > 0)
            await log.close()
            let next = try SQLiteOperationLog(path: path)
            #expect(try await next.eraseDatabase("another") == nil)
            #expect(try occurrences(path) == 0)
            await next.close()
        }
    }

    private var secret: String { "written-only-here" }

    /// How often the secret stands in the log's files.
    private func occurrences(_ path: String) throws -> Int {
        try [path, path + "-wal"].reduce(0) { count, path in
            guard FileManager.default.fileExists(atPath: path) else { return count }
            var rest = try Data(contentsOf: URL(fileURLWithPath: path))[...]
            var found = count
            while let range = rest.range(of: Data(secret.utf8)) {
                found += 1
                rest = rest[range.upperBound...]
            }
            return found
        }
    }
}
