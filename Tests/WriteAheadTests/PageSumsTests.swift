import Foundation
import GRDB
import TestSupport
import Testing

@testable import WriteAhead

@Suite("Page sums and the mark of a write-ahead log")
struct PageSumsTests {
    private static func use(_ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { try body($0.appendingPathComponent("store.sqlite").path) }
    }

    private static func configuration(mapped: Bool = false) -> Configuration {
        var configuration = Configuration()
        configuration.journalMode = .wal
        PageSums.add(to: &configuration)
        if mapped { configuration.prepareDatabase { try $0.execute(sql: "PRAGMA mmap_size = 1000000") } }
        return configuration
    }

    /// A closed file with a row of a few pages.
    private static func write(_ path: String) throws {
        let queue = try DatabaseQueue(path: path, configuration: configuration())
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE rows (text TEXT)")
            for number in 0..<40 {
                try db.execute(
                    sql: "INSERT INTO rows VALUES (?)",
                    arguments: [String(repeating: "\(number) ", count: 90)])
            }
        }
        try queue.close()
    }

    private enum Reading: Equatable {
        case rows([String])
        case refused(ResultCode)

        var code: ResultCode? { if case .refused(let code) = self { code } else { nil } }
    }

    private static func read(_ path: String, mapped: Bool) throws -> Reading {
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration(mapped: mapped))
            defer { try? queue.close() }
            return .rows(try queue.read { try String.fetchAll($0, sql: "SELECT text FROM rows") })
        } catch let error as DatabaseError {
            return .refused(error.resultCode)
        }
    }

    private static func turn(_ byte: Int, of path: String) throws {
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[byte] ^= 4
        try bytes.write(to: URL(fileURLWithPath: path))
    }

    @Test("a byte turned in a value is damage, whether pages are mapped or read", arguments: [false, true])
    func value(mapped: Bool) throws {
        try Self.use { path in
            try Self.write(path)
            let reading = try Self.read(path, mapped: mapped)
            #expect(reading == .rows((0..<40).map { String(repeating: "\($0) ", count: 90) }))
            let text = try Data(contentsOf: URL(fileURLWithPath: path))
            let place = try #require(text.range(of: Data("17 17 17".utf8))).lowerBound
            try Self.turn(place, of: path)
            #expect(try Self.read(path, mapped: mapped) == .refused(.SQLITE_CORRUPT))
        }
    }

    @Test("a page that is damaged while a connection has it mapped is found by a later transaction")
    func damagedWhileMapped() throws {
        try Self.use { path in
            try Self.write(path)
            let queue = try DatabaseQueue(path: path, configuration: Self.configuration(mapped: true))
            let count = "SELECT COUNT(*) FROM rows WHERE text LIKE '21 21%'"
            #expect(try queue.read { try Int.fetchOne($0, sql: count) } == 1)
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            let place = try #require(bytes.range(of: Data("21 21 21".utf8))).lowerBound
            // In its place: another file under this name would not be the one that is mapped.
            let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
            try file.seek(toOffset: UInt64(place))
            try file.write(contentsOf: Data("7".utf8))
            try file.close()
            queue.inDatabase { PageSums.setAge(milliseconds: 0, of: $0) }
            let error = #expect(throws: DatabaseError.self) {
                try queue.read { try Int.fetchOne($0, sql: count) }
            }
            #expect(error?.resultCode == .SQLITE_CORRUPT)
            try queue.close()
        }
    }

    @Test("a page of zeros, a page that was cut, and a byte that would turn sums off are damage")
    func kinds() throws {
        try Self.use { path in
            try Self.write(path)
            let whole = try Data(contentsOf: URL(fileURLWithPath: path))
            var zeros = whole
            zeros.replaceSubrange(8_192..<12_288, with: Data(count: 4_096))
            for damaged in [zeros, whole.prefix(whole.count - 1_000)] {
                try damaged.write(to: URL(fileURLWithPath: path))
                #expect(try Self.read(path, mapped: false) == .refused(.SQLITE_CORRUPT))
            }
            for byte in [16, 17, 20] {
                try whole.write(to: URL(fileURLWithPath: path))
                try Self.turn(byte, of: path)
                let code = try #require(try Self.read(path, mapped: false).code)
                #expect([.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(code), "byte \(byte)")
            }
        }
    }

    @Test("a first page that was not written to its end is no damage: the file was about to be made")
    func tornCreation() throws {
        try Self.use { path in
            var first = Configuration()
            PageSums.add(to: &first)
            let queue = try DatabaseQueue(path: path, configuration: first)
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 0") }
            try queue.close()
            let whole = try Data(contentsOf: URL(fileURLWithPath: path))
            #expect(whole.count == 4_096)
            for bytes in [0, 512, 2_048, 4_095] {
                try whole.prefix(bytes).write(to: URL(fileURLWithPath: path))
                let queue = try DatabaseQueue(path: path, configuration: Self.configuration())
                try queue.write { try $0.execute(sql: "CREATE TABLE others (text TEXT)") }
                try queue.close()
                try Self.turn(4_000, of: path)
                #expect(try Self.read(path, mapped: false) == .refused(.SQLITE_CORRUPT), "\(bytes)")
            }
        }
    }

    @Test("a file that was made without sums is read and written without them")
    func earlier() throws {
        try Self.use { path in
            let plain = try DatabaseQueue(path: path)
            try plain.write { try $0.execute(sql: "CREATE TABLE rows (text TEXT)") }
            try plain.close()
            let queue = try DatabaseQueue(path: path, configuration: Self.configuration())
            try queue.write { try $0.execute(sql: "INSERT INTO rows VALUES ('a')") }
            try queue.close()
            #expect(try Self.read(path, mapped: false) == .rows(["a"]))
            #expect(try Data(contentsOf: URL(fileURLWithPath: path))[20] == 0)
        }
    }

    @Test("the file and its companions are their owner's only, also one that others could read")
    func mode() throws {
        try Self.use { path in
            try Self.write(path)
            let manager = FileManager.default
            try manager.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            let queue = try DatabaseQueue(path: path, configuration: Self.configuration())
            try queue.write { try $0.execute(sql: "DELETE FROM rows") }
            for suffix in ["", "-wal", "-shm"] {
                let mode = try manager.attributesOfItem(atPath: path + suffix)[.posixPermissions] as? Int
                #expect(mode == 0o600, "\(suffix)")
            }
            try queue.close()
        }
    }

    /// A file whose process was killed after some commits: its bytes, with its companions.
    private static func killed(_ path: String) throws -> [String: Data] {
        let queue = try DatabaseQueue(path: path, configuration: configuration())
        let mark = try #require(WriteAheadMark(path: path))
        let writeAhead = try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA synchronous = FULL")
            let log = try WriteAheadLog(of: db, mark: mark)
            try db.execute(sql: "CREATE TABLE rows (text TEXT)")
            for number in 0..<9 {
                mark.note.0 = UInt64(number)
                try db.execute(sql: "INSERT INTO rows VALUES (?)", arguments: ["\(number)"])
            }
            return log
        }
        var files: [String: Data] = [:]
        for suffix in ["", "-wal", "-mark"] {
            files[suffix] = try Data(contentsOf: URL(fileURLWithPath: path + suffix))
        }
        withExtendedLifetime(writeAhead) {}
        try queue.close()
        return files
    }

    private static func put(_ files: [String: Data], at path: String) throws {
        for suffix in ["-wal", "-shm", "-mark"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        for (suffix, bytes) in files { try bytes.write(to: URL(fileURLWithPath: path + suffix)) }
    }

    @Test("a write-ahead log that lost a durable commit is told from one that a crash has left")
    func lostCommits() throws {
        try Self.use { path in
            let files = try Self.killed(path)
            let log = try #require(files["-wal"])
            try Self.put(files, at: path)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil)
            #expect(WriteAheadMark.content(of: path)?.note.0 == 8)
            // Anything of the header and of the last frame; a cut; and all but the log's length.
            for byte in [3, 17, 25, 40, log.count - 4_000, log.count - 4_110] {
                var damaged = files
                damaged["-wal"]?[byte] ^= 1
                try Self.put(damaged, at: path)
                #expect(WriteAheadMark.loss(of: path, isSynced: true) != nil, "byte \(byte)")
            }
            var cut = files
            cut["-wal"] = log.prefix(log.count - 10)
            try Self.put(cut, at: path)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) != nil)
            // Only the header is gone: the frames behind it show that it was one.
            var headless = files
            headless["-wal"]?.replaceSubrange(0..<4_096, with: Data(count: 4_096))
            try Self.put(headless, at: path)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) != nil)
            // A later transaction that was not finished is no loss, and a mark that is damaged says nothing.
            var more = files
            more["-wal"] = log + Data(count: 3_000)
            try Self.put(more, at: path)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil)
            cut["-mark"]?[9] ^= 1
            try Self.put(cut, at: path)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil)
        }
    }

    @Test("a process killed between opening a file after a crash and its first commit has lost nothing")
    func killedBeforeTheFirstCommit() throws {
        try Self.use { path in
            try Self.put(try Self.killed(path), at: path)
            let queue = try DatabaseQueue(path: path, configuration: Self.configuration())
            let mark = try #require(WriteAheadMark(path: path))
            let writeAhead = try queue.writeWithoutTransaction { db in
                try WriteAheadLog.checkpoint(db, isShared: false)
                return try WriteAheadLog(of: db, mark: mark)
            }
            try queue.write { writeAhead.makeRoom($0) }
            let log = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
            #expect(log.count > 0 && log.allSatisfy { $0 == 0 })
            #expect(WriteAheadMark.content(of: path)?.isOpen == true)
            #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil)
            try queue.close()
        }
    }
}
