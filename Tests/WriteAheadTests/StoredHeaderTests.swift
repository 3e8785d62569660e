import Foundation
import GRDB
import TestSupport
import Testing

@testable import WriteAhead

@Suite("The header of a SQLite file, read without SQLite")
struct StoredHeaderTests {
    private static func use(_ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { try body($0.appendingPathComponent("store.sqlite").path) }
    }

    private static func queue(_ path: String, _ mode: String = "WAL") throws -> DatabaseQueue {
        var configuration = Configuration()
        PageSums.add(to: &configuration)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(mode)")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
        }
        return queue
    }

    /// The folder's files with their bytes.
    private static func content(beside path: String) throws -> [String: Data] {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return try Dictionary(
            uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: folder.appendingPathComponent($0))) })
    }

    @Test("the last commit counts, wherever it is, and one that has not ended does not; no file changes")
    func commits() throws {
        try Self.use { path in
            let queue = try Self.queue(path)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA application_id = 77; PRAGMA user_version = 3")
                try db.checkpoint(.truncate)
            }
            let before = try Self.content(beside: path)
            #expect(
                try StoredHeader.read(path)
                    == StoredHeader(application: 77, version: 3, hasTables: false))
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE a (b); PRAGMA user_version = 4")
            }
            // Only in the write-ahead log.
            #expect(try Self.content(beside: path)["store.sqlite"] == before["store.sqlite"])
            #expect(
                try StoredHeader.read(path) == StoredHeader(application: 77, version: 4, hasTables: true))
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA cache_size = 2; PRAGMA cache_spill = 1")
                try db.inTransaction(.immediate) {
                    try db.execute(sql: "PRAGMA user_version = 5; CREATE TABLE c (d)")
                    // Enough to be written before the commit.
                    for _ in 0..<40 { try db.execute(sql: "INSERT INTO c VALUES (zeroblob(4000))") }
                    let during = try Self.content(beside: path)
                    #expect(try StoredHeader.read(path)?.version == 4)
                    #expect(try Self.content(beside: path) == during)
                    return .rollback
                }
                try db.execute(sql: "INSERT INTO a VALUES (1)")
            }
            let after = try Self.content(beside: path)
            #expect(try StoredHeader.read(path)?.version == 4)
            #expect(try Self.content(beside: path) == after)
            try queue.close()
        }
    }

    @Test("without the index of its write-ahead log, as after a crash, the same is read and none is made")
    func crash() throws {
        try Self.use { path in
            let queue = try Self.queue(path)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE a (b); PRAGMA user_version = 9")
            }
            let copy = path + ".copy"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            try queue.close()
            let before = try Self.content(beside: path)
            #expect(try StoredHeader.read(copy)?.version == 9)
            #expect(try Self.content(beside: path) == before)
            // A log that is cut within the commit's frames: the commit never was.
            let log = try #require(FileHandle(forWritingAtPath: copy + "-wal"))
            try log.truncate(atOffset: log.seekToEndOfFile() - 100)
            #expect(try StoredHeader.read(copy)?.version == 0)
        }
    }

    @Test("a rollback journal that was left takes back what it covers, the file's creation too")
    func journal() throws {
        try Self.use { path in
            let queue = try Self.queue(path, "DELETE")
            let copy = path + ".copy"
            func copied(_ sql: String) throws {
                for suffix in ["", "-journal"] { try? FileManager.default.removeItem(atPath: copy + suffix) }
                try queue.writeWithoutTransaction { db in
                    try db.execute(sql: "PRAGMA cache_size = 2; PRAGMA cache_spill = 1")
                    try db.inTransaction(.immediate) {
                        try db.execute(sql: sql)
                        for _ in 0..<40 { try db.execute(sql: "INSERT INTO a VALUES (zeroblob(4000))") }
                        for suffix in ["", "-journal"] {
                            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
                        }
                        return .commit
                    }
                }
            }
            try copied("PRAGMA user_version = 1; CREATE TABLE a (b)")
            #expect(try StoredHeader.read(copy) == nil)
            #expect(try StoredHeader.read(path)?.version == 1)
            try copied("PRAGMA user_version = 2")
            #expect(try StoredHeader.read(copy)?.version == 1)
            #expect(try StoredHeader.read(path)?.version == 2)
            try queue.close()
        }
    }

    @Test("a missing or empty file has none; other files and damaged pages are refused as what they are")
    func others() throws {
        try Self.use { path in
            #expect(try StoredHeader.read(path) == nil)
            try Data().write(to: URL(fileURLWithPath: path))
            #expect(try StoredHeader.read(path) == nil)
            try Data(repeating: 0x61, count: 5_000).write(to: URL(fileURLWithPath: path))
            #expect(throws: StoredHeader.Unreadable.self) { try StoredHeader.read(path) }
            try FileManager.default.removeItem(atPath: path)
            let queue = try Self.queue(path)
            try queue.writeWithoutTransaction { db in try db.execute(sql: "CREATE TABLE a (b)") }
            try queue.close()
            var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            bytes[60] ^= 1
            try bytes.write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: StoredHeader.Unreadable.self) { try StoredHeader.read(path) }
            #expect(error?.isDamaged == true)
        }
    }

    @Test("a first page that is cut, or has a size that no page has, is damaged, with sums and without")
    func cutPage() throws {
        try Self.use { path in
            let file = URL(fileURLWithPath: path)
            for hasSums in [true, false] {
                try? FileManager.default.removeItem(at: file)
                let queue = try hasSums ? Self.queue(path) : DatabaseQueue(path: path)
                try queue.writeWithoutTransaction { db in try db.execute(sql: "CREATE TABLE a (b)") }
                try queue.close()
                let whole = try Data(contentsOf: file)
                #expect(try StoredHeader.read(path)?.hasTables == true)
                var strange = whole
                // 3,072 bytes.
                strange[16] = 12
                strange[17] = 0
                for bytes in [whole.prefix(2_000), whole.prefix(4_095), strange] {
                    try bytes.write(to: file)
                    let error = #expect(throws: StoredHeader.Unreadable.self) { try StoredHeader.read(path) }
                    #expect(error?.isDamaged == true && error?.isClosed == false)
                }
            }
        }
    }

    @Test("nothing beside an empty file counts; a file that the system refuses is told with its reason")
    func beside() throws {
        try Self.use { path in
            let queue = try Self.queue(path)
            try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA user_version = 9") }
            let copy = path + ".copy"
            try FileManager.default.copyItem(atPath: path + "-wal", toPath: copy + "-wal")
            try Data().write(to: URL(fileURLWithPath: copy))
            try queue.close()
            #expect(try StoredHeader.read(copy) == nil)
            // Reading a folder fails for every user.
            for suffix in ["", "-wal", "-journal"] {
                let other = path + ".other"
                try FileManager.default.copyItem(atPath: path, toPath: other)
                try? FileManager.default.removeItem(atPath: other + suffix)
                try FileManager.default.createDirectory(
                    atPath: other + suffix, withIntermediateDirectories: false)
                let error = #expect(throws: StoredHeader.Unreadable.self) { try StoredHeader.read(other) }
                #expect(error?.isClosed == true && error?.isDamaged == false)
                #expect(error?.description.hasPrefix("\(other)\(suffix) cannot be read: ") == true)
                for name in Set([other, other + suffix]) { try FileManager.default.removeItem(atPath: name) }
            }
        }
    }
}
