import CRDT
import Foundation
import GRDB
import TestSupport
import Testing
import WriteAhead

@testable import OperationLog

@Suite("SQLite log: commits that were durable and are gone")
struct LostCommitsTests {
    private static let companions = ["", "-wal", "-mark"]

    /// The files of a log with ten operations whose process was killed.
    private static func killed(_ path: String) async throws -> [String: Data] {
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase("db")
        _ = try await log.append(requests(1, 1...5), to: "db")
        for number in UInt64(6)...10 {
            _ = try await log.append([request(1, SequenceNumber(number))], to: "db")
        }
        var files: [String: Data] = [:]
        for suffix in companions { files[suffix] = try Data(contentsOf: URL(fileURLWithPath: path + suffix)) }
        await log.close()
        return files
    }

    private static func put(_ files: [String: Data], at path: String) throws {
        for suffix in companions + ["-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        for (suffix, bytes) in files { try bytes.write(to: URL(fileURLWithPath: path + suffix)) }
    }

    @Test(
        "a write-ahead log with a turned byte or a cut end is refused; a removed mark goes on with the rest")
    func damagedLog() async throws {
        try await withTemporaryPath { path in
            let files = try await Self.killed(path)
            var last: [String: Data] = [:]
            for kind in 0..<3 {
                var damaged = files
                switch kind {
                case 0: damaged["-wal"]?[5_000] ^= 1
                case 1: damaged["-wal"]?[20] ^= 1
                default: damaged["-wal"] = damaged["-wal"]?.prefix(9_000)
                }
                try Self.put(damaged, at: path)
                let error = #expect(throws: OperationLogError.self) { _ = try SQLiteOperationLog(path: path) }
                #expect(error?.code == .corrupt && error?.message.contains("-mark") == true)
                last = damaged
            }
            last["-mark"] = nil
            try Self.put(last, at: path)
            let log = try SQLiteOperationLog(path: path)
            #expect(log.status.loss == nil)
            await log.close()
            try Self.put(files, at: path)
            let whole = try SQLiteOperationLog(path: path)
            #expect(try await whole.head(of: "db").offset == 10)
            #expect(whole.status.loss == nil)
            await whole.close()
        }
    }

    @Test("of several processes that start at once the first sees that it is alone")
    func startTogether() async throws {
        try await withTemporaryPath { path in
            let (first, second) = (try WakeFile(logPath: path), try WakeFile(logPath: path))
            try first.opening(timeout: .seconds(1)) { #expect(!first.hasOtherListeners) }
            try second.opening(timeout: .seconds(1)) { #expect(second.hasOtherListeners) }
            first.leave()
            #expect(!second.hasOtherListeners)
        }
    }

    @Test("who fails to open a log is no listener, also while the next one opens it")
    func failedOpening() async throws {
        try await withTemporaryPath { path in
            let (first, second) = (try WakeFile(logPath: path), try WakeFile(logPath: path))
            #expect(throws: OperationLogError.self) {
                try first.opening(timeout: .seconds(1)) { throw OperationLogError(.corrupt, "damaged") }
            }
            try second.opening(timeout: .seconds(1)) { #expect(!second.hasOtherListeners) }
            withExtendedLifetime(first) {}
        }
    }

    @Test("who closes a log that others have open leaves its commits guarded")
    func closedBesideAnother() async throws {
        try await withTemporaryPath { path in
            let (staying, leaving) = (try SQLiteOperationLog(path: path), try SQLiteOperationLog(path: path))
            try await staying.createDatabase("db")
            _ = try await staying.append(requests(1, 1...3), to: "db")
            await leaving.close()
            #expect(WriteAheadMark.content(of: path)?.isOpen == true)
            await staying.close()
            #expect(WriteAheadMark.content(of: path)?.isOpen == false)
        }
    }

    @Test("a log that was put back, or whose write-ahead log is gone, tells the operations that it lacks")
    func putBack() async throws {
        try await withTemporaryPath { path in
            let first = try SQLiteOperationLog(path: path)
            try await first.createDatabase("db")
            _ = try await first.append(requests(1, 1...3), to: "db")
            await first.close()
            let backup = try Data(contentsOf: URL(fileURLWithPath: path))
            let second = try SQLiteOperationLog(path: path)
            #expect(second.status.loss == nil)
            _ = try await second.append(requests(1, 4...8), to: "db")
            await second.close()
            try backup.write(to: URL(fileURLWithPath: path))
            let log = try SQLiteOperationLog(path: path)
            #expect(log.status.loss == LogLoss(database: "db", head: 3, previous: 8))
            // Another history up to the same place is a loss too.
            for number in UInt64(1)...6 {
                _ = try await log.append([request(2, SequenceNumber(number))], to: "db")
            }
            await log.close()
            let mark = try Data(contentsOf: URL(fileURLWithPath: path + "-mark"))
            try backup.write(to: URL(fileURLWithPath: path))
            let other = try SQLiteOperationLog(path: path)
            for number in UInt64(1)...7 {
                _ = try await other.append([request(3, SequenceNumber(number))], to: "db")
            }
            await other.close()
            try mark.write(to: URL(fileURLWithPath: path + "-mark"))
            let last = try SQLiteOperationLog(path: path)
            #expect(last.status.loss == LogLoss(database: "db", head: 10, previous: 9))
            await last.close()
        }
    }

    @Test("an erased database is no loss, whoever commits after it, and a log from before it is one")
    func erased() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            let other = try SQLiteOperationLog(path: path)
            for database: DatabaseID in ["db", "rest"] { try await log.createDatabase(database) }
            _ = try await log.append(requests(1, 1...3), to: "rest")
            _ = try await other.append(requests(1, 1...5), to: "db")
            try await log.eraseDatabase("db")
            // The other process has the erased database as the last one that grew.
            _ = try await other.lease("test", of: 1, for: .seconds(60), in: "rest")
            await other.close()
            await log.close()
            let next = try SQLiteOperationLog(path: path)
            #expect(next.status.loss == nil)
            await next.close()
            let backup = try Data(contentsOf: URL(fileURLWithPath: path))
            let grown = try SQLiteOperationLog(path: path)
            try await grown.createDatabase("new")
            _ = try await grown.append(requests(2, 1...2), to: "new")
            await grown.close()
            try backup.write(to: URL(fileURLWithPath: path))
            let last = try SQLiteOperationLog(path: path)
            #expect(last.status.loss == LogLoss(database: nil, head: 0, previous: 2))
            await last.close()
        }
    }

    @Test("a killed log that another program has copied into its file is whole")
    func copied() async throws {
        try await withTemporaryPath { path in
            let files = try await Self.killed(path)
            try Self.put(files, at: path)
            // As another program leaves it: pages of the write-ahead log in the file, without sums.
            var file = try #require(files[""])
            let log = try #require(files["-wal"])
            for start in stride(from: 32, through: log.count - 4_120, by: 4_120) where log[start + 3] != 0 {
                let page = log[start..<(start + 4)].reduce(0) { $0 << 8 | Int($1) }
                let bytes = log[(start + 24)..<(start + 4_120)]
                if file.count < page * 4_096 { file.append(Data(count: page * 4_096 - file.count)) }
                file.replaceSubrange(((page - 1) * 4_096)..<(page * 4_096), with: bytes)
            }
            try file.write(to: URL(fileURLWithPath: path))
            try FileManager.default.removeItem(atPath: path + "-wal")
            for _ in 0..<2 {
                let log = try SQLiteOperationLog(path: path)
                #expect(try await log.read("db", after: 0).count == 10)
                #expect(log.status.loss == nil)
                await log.close()
            }
        }
    }

    @Test(
        "a damaged page that an append needs refuses it and the next ones as damage, not as a passing state")
    func damagedPage() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...40, size: 300), to: "db")
            await log.close()
            var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            // The last page of the table of operations, to which every append adds.
            bytes[bytes.count - 300] ^= 1
            try bytes.write(to: URL(fileURLWithPath: path))
            let damaged = try SQLiteOperationLog(path: path)
            for _ in 0..<2 {
                #expect(
                    try await code { _ = try await damaged.append([request(1, 41)], to: "db") } == .corrupt)
            }
            await damaged.close()
        }
    }
}
