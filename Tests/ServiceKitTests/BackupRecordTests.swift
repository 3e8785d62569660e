import CRDT
import Foundation
import Logging
import OperationLog
import TestSupport
import Testing

@testable import ServiceKit

@Suite("Notes of backups", .timeLimit(.minutes(1)))
struct BackupRecordTests {
    private static func record(_ place: String, _ ends: [DatabaseID: Offset], until: Int64?) -> BackupRecord {
        var record = BackupRecord(id: place)
        record.holds = ends.map { BackupRecord.Hold(database: $0.key, offset: $0.value) }
        record.holdEndsAtSeconds = until
        record.full = BackupRecord.Made(atSeconds: 50, milliseconds: 1_500, bytes: 4_096)
        return record
    }

    @Test("the bucket of the store that started last is noted once, and read without a service or a write")
    func buckets() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log").path, logger: logger)
            #expect(try await SystemDirectory.read(from: log, logger: logger) == nil)
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, logger: logger)
            try await system.open()
            let one = AttachmentBucketRecord(id: "https://s3.example.org/one", region: "eu-central-1")
            try await system.note(attachments: nil)
            let empty = try await log.head(of: SystemDatabase.id)
            try await system.note(attachments: one)
            try await system.note(attachments: one)
            let noted = try await log.head(of: SystemDatabase.id)
            #expect(empty.offset == 0 && noted.offset == 1)
            #expect(
                try await SystemDirectory.read(from: log, logger: logger)?.attachmentBuckets == [one.id: one])
            let other = AttachmentBucketRecord(id: "https://s3.example.org/two/a", region: "us-east-1")
            try await system.note(attachments: other)
            #expect(system.directory.attachmentBuckets == [other.id: other])
            try await system.note(attachments: nil)
            #expect(try await SystemDirectory.read(from: log, logger: logger)?.attachmentBuckets == [:])
            #expect(try await log.head(of: SystemDatabase.id).offset == 3)
            await system.close()
            await log.close()
        }
    }

    @Test("of two stores that start at once one place is noted")
    func twoStores() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log").path, logger: logger)
            let systems = ["one", "two", "three"].map {
                SystemDatabase(log: log, folder: folder.appendingPathComponent($0).path, logger: logger)
            }
            for system in systems { try await system.open() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, system) in systems.enumerated() {
                    let bucket = AttachmentBucketRecord(id: "https://s3.example.org/\(number)", region: "r")
                    group.addTask { try await system.note(attachments: bucket) }
                }
                try await group.waitForAll()
            }
            #expect(try await SystemDirectory.read(from: log, logger: logger)?.attachmentBuckets.count == 1)
            for system in systems { await system.close() }
            await log.close()
        }
    }

    @Test("a read removes what an interrupted one has left, and nothing else")
    func copies() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log").path, logger: logger)
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, logger: logger)
            try await system.open()
            let manager = FileManager.default
            let temporary = folder.appendingPathComponent("temporary")
            for name in ["mimeo-directory-old", "mimeo-directory-new", "other-old"] {
                let place = temporary.appendingPathComponent(name)
                try manager.createDirectory(
                    at: place.appendingPathComponent("system"), withIntermediateDirectories: true)
                guard name.hasSuffix("old") else { continue }
                try manager.setAttributes(
                    [.modificationDate: Date(timeIntervalSinceNow: -7_200)], ofItemAtPath: place.path)
            }
            let read = try await SystemDirectory.read(from: log, in: temporary.path, logger: logger)
            #expect(read != nil)
            #expect(
                try manager.contentsOfDirectory(atPath: temporary.path).sorted()
                    == ["mimeo-directory-new", "other-old"])
            await system.close()
            await log.close()
        }
    }

    @Test("a backup that says no more that it runs has failed, and one that runs or has ended has not")
    func killed() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log").path, logger: logger)
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, logger: logger)
            try await system.open()
            var (first, second) = (BackupRecord(id: "/one"), BackupRecord(id: "s3://two/x"))
            func lastFailed(_ now: Int64) async throws -> Int64? {
                let records = [first, second]
                try await system.write { writer in for record in records { try writer.put(record) } }
                return system.directory.lastFailedBackup(nowSeconds: now)
            }
            #expect(try await lastFailed(1_000) == nil)
            first.runsUntilSeconds = 1_000
            #expect(try await lastFailed(999) == nil)
            #expect(try await lastFailed(1_001) == 1_000)
            // An earlier failure that was said, and one of another place.
            first.failedAtSeconds = 900
            second.failedAtSeconds = 1_100
            #expect(try await lastFailed(1_050) == 1_100)
            first.runsUntilSeconds = 0
            #expect(try await lastFailed(2_000) == 1_100)
            await system.close()
            await log.close()
        }
    }

    @Test("the log keeps what the furthest of the awaited backups needs, and nothing after their time")
    func hold() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log").path, logger: logger)
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, logger: logger)
            try await system.open()
            let records = [
                Self.record("/one", ["cars": 7, "boats": 9], until: 100),
                Self.record("s3://two/x", ["cars": 5], until: 200),
                Self.record("/none", ["cars": 1], until: nil),
            ]
            try await system.write { writer in for record in records { try writer.put(record) } }
            let directory = system.directory
            #expect(directory.backups["s3://two/x"] == records[1])
            #expect(directory.hold(of: "cars", nowSeconds: 99) == 5)
            #expect(directory.hold(of: "boats", nowSeconds: 99) == 9)
            #expect(directory.hold(of: "boats", nowSeconds: 100) == nil)
            #expect(directory.hold(of: "cars", nowSeconds: 150) == 5)
            #expect(directory.hold(of: "cars", nowSeconds: 200) == nil)
            #expect(directory.hold(of: "ships", nowSeconds: 1) == nil)
            // The registry is the process's: the system database of another test may replace the series.
            var served = ""
            for _ in 0..<100 where !served.contains("mimeo_backup_last_success_timestamp_seconds{") {
                try await system.write { writer in try writer.put(records[0]) }
                served = PrometheusRegistry.shared.text()
            }
            #expect(served.contains("mimeo_backup_last_success_timestamp_seconds{kind=\"full\"} 50"))
            #expect(served.contains("mimeo_backup_last_duration_seconds{kind=\"full\"} 1.5"))
            await system.close()
            await log.close()
        }
    }
}
