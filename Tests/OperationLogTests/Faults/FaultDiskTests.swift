import FaultDisk
import Foundation
import GRDB
import TestSupport
import Testing

/// The disk itself: a check that cannot fail would show nothing.
@Suite("Fault disk")
struct FaultDiskTests {
    /// Rows that were committed and rows that are there after a cut in the middle of a load.
    private func lossOfOneCut(seed: UInt64, synchronous: String) throws -> (lost: Int, isWhole: Bool) {
        try withFaultDisk(seed: seed) { disk, folder in
            let path = folder.appendingPathComponent("file.sqlite").path
            var dice = SplitMix64(seed: seed)
            let queue = try open(path, synchronous)
            try queue.write { try $0.execute(sql: "CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)") }
            _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            disk.cutPower(duringCall: 1 + dice.below(80))
            var committed = 0
            while true {
                let (number, size) = (committed + 1, 1 + dice.below(6_000))
                let insert = { (db: Database) in
                    try db.execute(
                        sql: "INSERT INTO t VALUES (?, ?)",
                        arguments: [number, Data(repeating: UInt8(number & 0xFF), count: size)])
                }
                do { try queue.write(insert) } catch { break }
                committed = number
            }
            try? queue.close()
            disk.restart()
            let again = try open(path, synchronous)
            let (found, check) = try again.read { db in
                (
                    try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") ?? 0,
                    try String.fetchOne(db, sql: "PRAGMA integrity_check")
                )
            }
            try again.close()
            return (max(0, committed - found), check == "ok")
        }
    }

    private func open(_ path: String, _ synchronous: String) throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
        }
        return queue
    }

    @Test("a cut takes commits that were not synced (NORMAL), and none that were (FULL)")
    func synchronous() throws {
        var runsWithLoss = ["NORMAL": 0, "FULL": 0]
        for seed in 1...60 as ClosedRange<UInt64> {
            for level in ["NORMAL", "FULL"] {
                let (lost, isWhole) = try lossOfOneCut(seed: seed, synchronous: level)
                #expect(isWhole, "seed \(seed), \(level)")
                runsWithLoss[level, default: 0] += lost > 0 ? 1 : 0
            }
        }
        #expect(runsWithLoss["FULL"] == 0)
        #expect(runsWithLoss["NORMAL", default: 0] > 20)
    }

    @Test("a disk that never syncs destroys a file: the cut reorders what was written")
    func neverSynced() throws {
        var damaged = 0
        for seed in 1...40 as ClosedRange<UInt64> {
            let outcome = try? lossOfOneCut(seed: seed, synchronous: "OFF")
            damaged += outcome?.isWhole == true && outcome?.lost == 0 ? 0 : 1
        }
        #expect(damaged > 10)
    }

    @Test("one seed is one cut, byte for byte")
    func deterministic() throws {
        func remains(of seed: UInt64) throws -> [Data] {
            try withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("file.sqlite").path
                let queue = try open(path, "NORMAL")
                try queue.write { try $0.execute(sql: "CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)") }
                for number in 1...20 {
                    try queue.write {
                        try $0.execute(
                            sql: "INSERT INTO t VALUES (?, zeroblob(3000))", arguments: [number])
                    }
                }
                disk.cutPower()
                try? queue.close()
                disk.restart()
                return ["", "-wal"].map { FileManager.default.contents(atPath: path + $0) ?? Data() }
            }
        }
        // SQLite draws the salt of a write-ahead log, so only what is before it is the same.
        let sizes = try (1...8).map { try remains(of: $0).map(\.count) }
        let again = try (1...8).map { try remains(of: $0).map(\.count) }
        #expect(sizes == again)
        #expect(Set(sizes).count > 1)
    }

    /// True if a file has a sector as it was in the old file, and not as it was written since.
    private func hasSector(_ file: Data, of old: Data, notOf new: Data) -> Bool {
        stride(from: 0, to: file.count, by: 512).contains { start in
            let sector = file.dropFirst(start).prefix(512)
            let isIn = { (other: Data) in other.dropFirst(start).prefix(sector.count) == sector }
            return isIn(old) && !isIn(new) && sector.contains { $0 != 0 }
        }
    }

    /// The log is written anew with a sync after its header, or without any.
    @Test(
        "a file that was cut short and grew again has all of its old contents after a cut, or none",
        arguments: [("FULL", 1), ("FULL", 2), ("FULL", 3), ("OFF", 10), ("OFF", 40)])
    func cutShort(synchronous: String, call: Int) throws {
        var outcomes = (old: 0, new: 0)
        for seed in 1...40 as ClosedRange<UInt64> {
            try withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("file.sqlite").path
                let content = { FileManager.default.contents(atPath: path + "-wal") ?? Data() }
                let queue = try open(path, "FULL")
                let insert = { (db: Database) in
                    try db.execute(sql: "INSERT INTO t VALUES (randomblob(3000))")
                }
                try queue.write { try $0.execute(sql: "CREATE TABLE t (b BLOB)") }
                for _ in 0..<10 { try queue.write(insert) }
                let old = content()
                try queue.writeWithoutTransaction { db in
                    _ = try db.checkpoint(.truncate)
                    try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
                }
                disk.cutPower(duringCall: call)
                while (try? queue.write(insert)) != nil {}
                try? queue.close()
                let new = content()
                disk.restart()
                let left = content()
                if left == old {
                    outcomes.old += 1
                } else {
                    outcomes.new += 1
                    #expect(!hasSector(left, of: old, notOf: new), "seed \(seed)")
                }
                let again = try open(path, "FULL")
                let rows = try again.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
                let check = try again.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
                #expect(rows ?? 0 >= 10 && check == "ok", "seed \(seed)")
                try again.close()
            }
        }
        #expect(outcomes.new > 0)
        // The sync after the header makes the shorter size durable.
        #expect((outcomes.old > 0) == (synchronous == "OFF" || call < 3))
    }

    @Test("a bound on space refuses what does not fit, and what is removed makes room again")
    func space() throws {
        try withFaultDisk(seed: 1) { disk, folder in
            let queue = try open(folder.appendingPathComponent("file.sqlite").path, "FULL")
            try queue.write { try $0.execute(sql: "CREATE TABLE t (b BLOB)") }
            disk.limitSpace(to: 100_000)
            let insert = { try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (zeroblob(60000))") } }
            try insert()
            #expect(throws: DatabaseError.self) { try insert() }
            #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
            disk.limitSpace(to: nil)
            try insert()
            try queue.close()
        }
    }

    @Test("other disks and files of nobody go on while one is off")
    func separate() throws {
        try withFaultDisk(seed: 1) { off, folder in
            try withFaultDisk(seed: 2) { _, other in
                let stopped = try open(folder.appendingPathComponent("a.sqlite").path, "FULL")
                let running = try open(other.appendingPathComponent("a.sqlite").path, "FULL")
                off.cutPower()
                #expect(throws: DatabaseError.self) {
                    try stopped.write { try $0.execute(sql: "CREATE TABLE t (n)") }
                }
                try running.write { try $0.execute(sql: "CREATE TABLE t (n)") }
                try? stopped.close()
                try running.close()
                #expect(off.openFiles == 0)
            }
        }
    }
}
