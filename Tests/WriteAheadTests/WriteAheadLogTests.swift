import FaultDisk
import Foundation
import GRDB
import TestSupport
import Testing

@testable import WriteAhead

@Suite("A write-ahead log that is longer than what is in it")
struct WriteAheadLogTests {
    /// A file with a table, as those open it that sync their commits.
    private struct Store {
        let path: String
        let queue: DatabaseQueue
        let writeAhead: WriteAheadLog

        init(
            _ path: String, checkpointPages: Int32 = WriteAheadLog.usualCheckpointPages,
            mark: WriteAheadMark? = nil
        ) throws {
            self.path = path
            var configuration = Configuration()
            configuration.journalMode = .wal
            configuration.busyMode = .timeout(5)
            queue = try DatabaseQueue(path: path, configuration: configuration)
            writeAhead = try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS rows (number INTEGER, bytes BLOB)")
                return try WriteAheadLog(of: db, checkpointPages: checkpointPages, mark: mark)
            }
        }

        /// One commit of so many bytes.
        func insert(_ number: Int, bytes: Int = 9_000) throws {
            try queue.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    writeAhead.makeRoom(db)
                    try db.execute(
                        sql: "INSERT INTO rows VALUES (?, zeroblob(?))", arguments: [number, bytes])
                    return .commit
                }
            }
        }

        /// The numbers of all rows, of a file that is whole.
        func numbers() throws -> [Int] {
            try queue.read { db in
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
                return try Int.fetchAll(db, sql: "SELECT number FROM rows ORDER BY rowid")
            }
        }

        var length: Int {
            get throws {
                try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int ?? 0
            }
        }
    }

    private static func use(_ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { try body($0.appendingPathComponent("store.sqlite").path) }
    }

    @Test("it grows ahead of small commits, a part at a time, and little beyond what starts a checkpoint")
    func parts() throws {
        try Self.use { path in
            let store = try Store(path)
            var lengths: [Int] = []
            for number in 0..<800 {
                try store.insert(number)
                let length = try store.length
                if length != lengths.last { lengths.append(length) }
            }
            #expect(try #require(lengths.first) <= 160_000, "the first commit wrote much ahead")
            #expect(lengths.count <= 30, "commits made the file longer themselves: \(lengths)")
            #expect(lengths == lengths.sorted(), "it was cut off, and has to grow again")
            // Room for a last part, and for the commit that is beyond the threshold.
            #expect(try #require(lengths.last) < 1_000 * 4_120 + (256 << 10) + 40_000)
            #expect(try #require(lengths.last) > 1_000 * 4_120)
            #expect(try store.numbers() == Array(0..<800))
        }
    }

    @Test("the file takes in what is in it, as it would by itself")
    func checkpoints() throws {
        try Self.use { path in
            let store = try Store(path, checkpointPages: 50)
            for number in 0..<200 { try store.insert(number) }
            #expect(try store.length < 50 * 4_120 + (256 << 10) + 40_000)
            // Without the write-ahead log: most of it is in the file already.
            let copy = path + ".copy"
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let found = try DatabaseQueue(path: copy).read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM rows") ?? 0
            }
            #expect((150..<200).contains(found))
        }
    }

    @Test("it grows ahead beyond that where a reader holds the log back")
    func heldBack() throws {
        try Self.use { path in
            let store = try Store(path, checkpointPages: 50)
            try store.insert(0)
            let reader = try DatabaseQueue(path: path)
            try reader.writeWithoutTransaction { db in
                try db.execute(sql: "BEGIN; SELECT count(*) FROM rows")
                var lengths: Set<Int> = []
                for number in 1..<300 {
                    try store.insert(number)
                    lengths.insert(try store.length)
                }
                #expect(try #require(lengths.max()) > 500 * 4_120, "the reader has held back nothing")
                #expect(lengths.count <= 25, "commits made the file longer themselves: \(lengths.sorted())")
                try db.execute(sql: "COMMIT")
            }
            #expect(try store.numbers() == Array(0..<300))
        }
    }

    @Test("zeros are nothing: who finds the files in the middle of it finds every commit")
    func found() throws {
        try Self.use { path in
            let store = try Store(path)
            for number in 0..<40 {
                try store.insert(number)
                let copy = "\(path)-\(number)"
                for suffix in ["", "-wal"] {
                    try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
                }
                #expect(try Store(copy).numbers() == Array(0...number))
            }
        }
    }

    @Test("two that write by turns, each making room, write over nothing of each other")
    func twoWriters() throws {
        try Self.use { path in
            let stores = [try Store(path), try Store(path)]
            var dice = SplitMix64(seed: Depth.seed &+ 7)
            for number in 0..<600 {
                try stores[dice.below(2)].insert(number, bytes: dice.below(3) * 20_000 + 100)
            }
            for store in stores { #expect(try store.numbers() == Array(0..<600)) }
        }
    }

    @Test("where another one has cut it off, it grows again")
    func cutOff() throws {
        try Self.use { path in
            let store = try Store(path)
            for number in 0..<30 { try store.insert(number) }
            let before = try store.length
            let other = try Store(path)
            try other.queue.writeWithoutTransaction { try WriteAheadLog.checkpoint($0, isShared: true) }
            #expect(try store.length == 0)
            try store.insert(30, bytes: 100)
            try store.insert(31, bytes: 100)
            #expect((64 << 10..<before).contains(try store.length))
            #expect(try store.numbers() == Array(0..<32))
        }
    }

    @Test("where there is no space for it, commits that fit go on, and those that do not are refused")
    func fullDisk() throws {
        try withFaultDisk(seed: 1) { disk, folder in
            let store = try Store(folder.appendingPathComponent("store.sqlite").path)
            try store.insert(0)
            disk.limitSpace(to: 40_000)
            var stored = [0]
            for number in 1..<40 {
                do {
                    try store.insert(number)
                    stored.append(number)
                } catch let error as DatabaseError {
                    #expect(error.resultCode == .SQLITE_FULL)
                }
            }
            // What was written ahead before holds some, and so does the space that was left.
            #expect((4..<20).contains(stored.count))
            disk.limitSpace(to: nil)
            try store.insert(40)
            #expect(try store.numbers() == stored + [40])
            try store.queue.close()
        }
    }

    @Test("a power cut after a checkpoint that emptied the log, before the next commit, loses nothing")
    func cutBeforeTheFirstCommit() throws {
        for seed in Depth.seeds(fast: 40, deep: 2_000) {
            try withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("store.sqlite").path
                let before = try Store(path)
                for number in 0..<40 { try before.insert(number) }
                try before.queue.writeWithoutTransaction { db in
                    // As an opening does after a kill.
                    let mark = WriteAheadMark(path: path)
                    try db.execute(sql: "PRAGMA synchronous = FULL")
                    let marked = try WriteAheadLog(of: db, mark: mark)
                    try db.execute(sql: "INSERT INTO rows VALUES (40, NULL)")
                    try WriteAheadLog.checkpoint(db, isShared: false)
                    let opened = try WriteAheadLog(of: db, mark: mark)
                    withExtendedLifetime(marked) {}
                    try db.inTransaction(.immediate) {
                        opened.makeRoom(db)
                        disk.cutPower()
                        return .rollback
                    }
                }
                try? before.queue.close()
                disk.restart()
                #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil, "seed \(seed)")
                let after = try Store(path)
                #expect(try after.numbers() == Array(0...40), "seed \(seed)")
                try after.queue.close()
            }
        }
    }

    /// The first calls of a commit that begins the log anew: its header, the sync of that, a page.
    @Test(
        "a power cut during the first commit after a checkpoint that emptied the log loses nothing",
        arguments: 1...4)
    func cutDuringTheFirstCommit(call: Int) throws {
        for seed in Depth.seeds(fast: 20, deep: 1_000) {
            try withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("store.sqlite").path
                let before = try Store(path, mark: WriteAheadMark(path: path))
                for number in 0..<20 { try before.insert(number) }
                // No room is made, as for the commits of an opening.
                try before.queue.writeWithoutTransaction { db in
                    try WriteAheadLog.checkpoint(db, isShared: false)
                    disk.cutPower(duringCall: call)
                    #expect(throws: DatabaseError.self) {
                        try db.execute(sql: "INSERT INTO rows VALUES (20, zeroblob(9000))")
                    }
                }
                try? before.queue.close()
                disk.restart()
                #expect(WriteAheadMark.content(of: path)?.isOpen == true)
                #expect(WriteAheadMark.loss(of: path, isSynced: true) == nil, "seed \(seed)")
                let after = try Store(path)
                #expect(try after.numbers() == Array(0..<20), "seed \(seed)")
                try after.queue.close()
            }
        }
    }

    @Test(
        "a fault while room is made is none of the commit",
        arguments: [
            (FaultDisk.Fault.ioError, 1), (.ioError, 2), (.ioError, 3), (.shortWrite, 1), (.diskFull, 1),
            (.failedSync, 1),
        ])
    func faults(fault: FaultDisk.Fault, call: Int) throws {
        try withFaultDisk(seed: 1) { disk, folder in
            let store = try Store(folder.appendingPathComponent("store.sqlite").path)
            try store.queue.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    disk.fail(fault, atCall: call)
                    store.writeAhead.makeRoom(db)
                    disk.heal()
                    try db.execute(sql: "INSERT INTO rows VALUES (0, NULL)")
                    return .commit
                }
            }
            for number in 1..<20 { try store.insert(number) }
            #expect(try store.numbers() == Array(0..<20))
            try store.queue.close()
        }
    }
}
