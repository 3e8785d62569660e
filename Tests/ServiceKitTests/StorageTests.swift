import CRDT
import Foundation
import LogFakes
import Logging
import OperationLog
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

@Suite("Damage, disks and folders of a deployment", .timeLimit(.minutes(2)))
struct StorageTests {
    private static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        logger.handler = SwiftLogNoOpLogHandler()
        return logger
    }

    /// A clock that a test moves.
    private final class Clock: Sendable {
        private let start = ContinuousClock.now
        private let passed = Mutex(Duration.zero)
        func move(_ duration: Duration) { passed.withLock { $0 += duration } }
        var now: ContinuousClock.Instant { start + passed.withLock { $0 } }
    }

    /// A log one of whose entries is damaged.
    private final class DamagedLog: PassingOnLog, @unchecked Sendable {
        // Unchecked because its superclass is; it has no state of its own.
        override func read(
            _ database: DatabaseID, after offset: Offset, limit: ReadLimit
        ) async throws -> [LogEntry] {
            guard offset < 7 else {
                throw OperationLogError(.corrupt, "gone", database: database, offset: 8)
            }
            return try await super.read(database, after: offset, limit: ReadLimit(operations: 3))
        }
    }

    private static func log(_ folder: URL) throws -> SQLiteOperationLog {
        try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path, logger: quiet)
    }

    private static func request(_ sequence: UInt64) -> AppendRequest {
        let record = OperationRecord(
            actor: ActorID(1), sequence: SequenceNumber(sequence), timestamp: sequence, bytes: [1])
        return AppendRequest(record: record, authorKey: "key", touches: [])
    }

    @Test("damage of what nobody asks for is found, and health names the log's code and the offset")
    func scrub() async throws {
        try await withTemporaryDirectory { folder in
            let log = try Self.log(folder)
            try await log.createDatabase("cars")
            _ = try await log.append((1...9).map(Self.request), to: "cars")
            let guarded = GuardedLog(DamagedLog(log), logger: Self.quiet)
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            #expect(await part.health() == .ok)
            try await guarded.verify()
            let health = await part.health()
            #expect(health.status == .failing)
            #expect(
                health.detail == "LOG-0401: the operation log of database cars is damaged at offset 8; "
                    + "restore it from a backup")
            // What does not need the entry goes on.
            #expect(try await guarded.read("cars", after: 0).count == 3)
            #expect(try await guarded.append([Self.request(10)], to: "cars") == [.appended(offset: 10)])
            await log.close()
        }
    }

    @Test("a disk that stands still makes the instance unready, then refuses, and goes on by itself")
    func stall() async throws {
        try await withTemporaryDirectory { folder in
            let disk = HangingLog(try Self.log(folder))
            _ = try await disk.createDatabase("cars")
            let clock = Mutex(ContinuousClock.now)
            let guarded = GuardedLog(disk, logger: Self.quiet, now: { clock.withLock { $0 } })
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            #expect(try await guarded.append([Self.request(1)], to: "cars") == [.appended(offset: 1)])
            disk.hangs.withLock { $0 = true }
            async let first = guarded.append([Self.request(2)], to: "cars")
            await disk.reached()
            clock.withLock { $0 += .seconds(9) }
            #expect(await part.health() == .ok)
            #expect(await part.readiness().isEmpty)
            clock.withLock { $0 += .seconds(1) }
            #expect(await part.readiness().map(\.code) == ["LOG-0311"])
            #expect(guarded.status.refusal?.code == .stalled)
            #expect(await part.health().detail?.hasPrefix("LOG-0311: a change has waited for 10 s") == true)
            clock.withLock { $0 += .seconds(20) }
            let refusal = await #expect(throws: OperationLogError.self) {
                try await guarded.append([Self.request(3)], to: "cars")
            }
            #expect(refusal?.code == .stalled)
            // Reads go on, and when the disk does, everything does.
            #expect(try await guarded.read("cars", after: 0).count == 1)
            disk.goOn()
            #expect(try await first == [.appended(offset: 2)])
            #expect(guarded.appendAge == .zero && guarded.status.refusal == nil)
            #expect(await part.health() == .ok)
            #expect(try await guarded.append([Self.request(3)], to: "cars") == [.appended(offset: 3)])
            await disk.log.close()
        }
    }

    @Test("a log that was moved fails readiness and names the new address, until the move is taken back")
    func moved() async throws {
        try await withTemporaryDirectory { folder in
            let log = try Self.log(folder)
            for database in [SystemDatabase.id, "cars"] { _ = try await log.createDatabase(database) }
            let guarded = GuardedLog(log, logger: Self.quiet)
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            let place = NewPlace(log: "postgres://db/mimeo", address: "https://new.example.com")
            // One database of many is not the server's readiness.
            try await log.close("cars", movedTo: place, from: nil)
            await guarded.lookForMove()
            #expect(await part.readiness().isEmpty)
            let refusal = await #expect(throws: OperationLogError.self) {
                try await guarded.append([Self.request(1)], to: "cars")
            }
            let answer = ErrorAnswer.reportable(try #require(refusal))
            #expect(answer.httpStatus == .serviceUnavailable)
            #expect(answer.publicCode == "LOG-0313")
            #expect(answer.publicMessage == "the database was moved to https://new.example.com")
            try await log.close(SystemDatabase.id, movedTo: place, from: nil)
            await guarded.lookForMove()
            #expect(await part.readiness().map(\.code) == ["LOG-0313"])
            #expect(guarded.status.refusesAtOnce)
            #expect(
                await part.health().detail == "LOG-0313: the database was moved to https://new.example.com")
            try await log.reopen(SystemDatabase.id, from: place)
            await guarded.lookForMove()
            #expect(await part.readiness().isEmpty)
            #expect(await part.health() == .ok)
            await log.close()
        }
    }

    @Test("a log whose server is full fails readiness from the first refused write, and recovers by itself")
    func full() async throws {
        try await withTemporaryDirectory { folder in
            let disk = FullLog(try Self.log(folder))
            _ = try await disk.createDatabase("cars")
            let guarded = GuardedLog(disk, logger: Self.quiet)
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            #expect(try await guarded.append([Self.request(1)], to: "cars") == [.appended(offset: 1)])
            disk.refusal.withLock { $0 = .storageFull }
            #expect(await part.readiness().isEmpty)
            for _ in 0..<2 {
                await #expect(throws: OperationLogError.self) {
                    try await guarded.append([Self.request(2)], to: "cars")
                }
                #expect(await part.readiness().map(\.code) == ["LOG-0301"])
                #expect(await part.health().detail?.hasPrefix("LOG-0301: ") == true)
                // Each append tries again, since a client's may be the first that fits.
                #expect(guarded.status.refusesAtOnce == false)
                await guarded.tryAgain()
            }
            #expect(await part.readiness().map(\.code) == ["LOG-0301"])
            disk.refusal.withLock { $0 = .unreachable }
            await guarded.tryAgain()
            #expect(await part.readiness().map(\.code) == ["LOG-0301"])
            disk.refusal.withLock { $0 = nil }
            await guarded.tryAgain()
            #expect(await part.readiness().isEmpty)
            #expect(await part.health() == .ok)
            #expect(try await guarded.append([Self.request(2)], to: "cars") == [.appended(offset: 2)])
            await disk.log.close()
        }
    }

    @Test("storage is told as slow while each commit takes a second, and nothing is refused")
    func slow() async throws {
        try await withTemporaryDirectory { folder in
            let clock = Clock()
            let disk = SlowLog(try Self.log(folder)) { clock.move($0) }
            _ = try await disk.createDatabase("cars")
            let guarded = GuardedLog(disk, logger: Self.quiet, now: { clock.now })
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            disk.time.withLock { $0 = .milliseconds(1_200) }
            // A failure tells nothing about the storage.
            for _ in 0..<5 {
                await #expect(throws: OperationLogError.self) {
                    try await guarded.append([Self.request(1)], to: "ships")
                }
            }
            for sequence in UInt64(1)...5 {
                // One slow commit may be chance, or a queue.
                #expect(await part.health() == .ok)
                _ = try await guarded.append([Self.request(sequence)], to: "cars")
            }
            #expect(await part.health().detail?.hasPrefix("SRV-0205: the log's storage is slow") == true)
            #expect(await part.readiness().isEmpty && guarded.status.refusal == nil)
            // Nobody has written for a minute: the past says nothing.
            clock.move(.seconds(60))
            #expect(await part.health() == .ok)
            for sequence in UInt64(6)...10 {
                #expect(await part.health() == .ok)
                _ = try await guarded.append([Self.request(sequence)], to: "cars")
            }
            #expect(await part.health().status == .failing)
            disk.time.withLock { $0 = .milliseconds(900) }
            _ = try await guarded.append([Self.request(11)], to: "cars")
            #expect(await part.health() == .ok)
            await disk.log.close()
        }
    }

    @Test("calls that waited for one stall are one commit, failed ones none; five may take over a minute")
    func pace() {
        let clock = Clock()
        let watch = AppendWatch(now: { clock.now })
        func call(_ count: Int, of time: Duration, isStored: Bool = true) {
            let waiting = (0..<count).map { _ in watch.begin() }
            clock.move(time)
            for number in waiting { watch.end(number, isStored: isStored) }
        }
        call(5, of: .seconds(9))
        #expect(watch.pace == nil)
        for _ in 0..<5 { call(1, of: .seconds(5), isStored: false) }
        #expect(watch.pace == nil)
        for _ in 0..<3 { call(2, of: .seconds(20)) }
        #expect(watch.pace == nil)
        call(1, of: .seconds(20))
        #expect(watch.pace == .seconds(9))
        clock.move(.seconds(60))
        #expect(watch.pace == nil)
        // Writers that take turns always overlap, and are not one commit for ever.
        var before = watch.begin()
        for _ in 0..<10 {
            clock.move(.milliseconds(600))
            let next = watch.begin()
            clock.move(.milliseconds(600))
            watch.end(before, isStored: true)
            before = next
        }
        #expect(watch.pace == .milliseconds(1_200))
    }

    @Test("a lease that waits for the disk is told as an append is, and later statements need not wait")
    func stalledLease() async throws {
        try await withTemporaryDirectory { folder in
            let disk = HangingLog(try Self.log(folder))
            _ = try await disk.createDatabase("cars")
            let clock = Mutex(ContinuousClock.now)
            let guarded = GuardedLog(disk, logger: Self.quiet, now: { clock.withLock { $0 } })
            let part = StoragePart(log: guarded, room: nil, ledger: DamageLedger())
            disk.hangs.withLock { $0 = true }
            async let lease = guarded.lease("p", of: 1, for: .seconds(60), in: "cars")
            await disk.reached()
            clock.withLock { $0 += .seconds(29) }
            #expect(await part.readiness().map(\.code) == ["LOG-0311"])
            #expect(!guarded.status.refusesAtOnce)
            clock.withLock { $0 += .seconds(1) }
            #expect(guarded.status.refusesAtOnce)
            disk.goOn()
            #expect(try await lease != nil)
            #expect(guarded.status.refusal == nil && !guarded.status.refusesAtOnce)
            await disk.log.close()
        }
    }

    @Test("a disk is nearly full below its reserve, at most 10 GiB, and no longer when room returns")
    func room() {
        let clock = Clock()
        let free = Mutex(DiskRoom.Room(freeBytes: 5_000, totalBytes: 100_000))
        let room = DiskRoom(
            folders: ["/data"], percent: 5, now: { clock.now }, measure: { _ in free.withLock { $0 } })
        func state(_ freeBytes: Int64, of totalBytes: Int64) -> Bool {
            free.withLock { $0 = DiskRoom.Room(freeBytes: freeBytes, totalBytes: totalBytes) }
            clock.move(.seconds(1))
            return room.isNearlyFull
        }
        #expect(!state(5_000, of: 100_000))
        #expect(state(4_999, of: 100_000) && room.freePercent == 4)
        #expect(!state(6_000, of: 100_000))
        #expect(!state(11 << 30, of: 4 << 40))
        #expect(state(9 << 30, of: 4 << 40))
        // A second look within a moment is spared.
        free.withLock { $0 = DiskRoom.Room(freeBytes: 1 << 40, totalBytes: 1 << 40) }
        #expect(room.isNearlyFull)
        let none = DiskRoom(folders: ["/data"], percent: 0, now: { clock.now }) { _ in
            DiskRoom.Room(freeBytes: 0, totalBytes: 100)
        }
        #expect(!none.isNearlyFull)
    }

    @Test("a nearly full disk refuses writes with a code, and neither reads nor revocations")
    func reserve() async throws {
        try await withTemporaryDirectory { folder in
            let log = try Self.log(folder)
            let room = DiskRoom(folders: ["/data"], percent: 5, now: { .now }) { _ in
                DiskRoom.Room(freeBytes: 1, totalBytes: 100)
            }
            let guarded = GuardedLog(log, room: room, logger: Self.quiet)
            try await guarded.createDatabase("cars")
            let error = await #expect(throws: OperationLogError.self) {
                _ = try await guarded.append([Self.request(1)], to: "cars")
            }
            #expect(error?.code == .nearlyFull)
            #expect(try await guarded.head(of: "cars").offset == 0)
            for reserved in [SystemDatabase.id, AuditLog.id] {
                try await guarded.createDatabase(reserved)
                #expect(
                    try await guarded.append([Self.request(1)], to: reserved) == [.appended(offset: 1)])
            }
            let answer = ErrorAnswer.reportable(OperationLogError(.nearlyFull, "x"))
            #expect(answer.httpStatus == .serviceUnavailable && answer.publicCode == "LOG-0310")
            let health = await StoragePart(log: guarded, room: room, ledger: DamageLedger()).health()
            #expect(health.status == .failing && health.detail?.hasPrefix("LOG-0310") == true)
            await log.close()
        }
    }

    @Test("a copy is rebuilt at once, a second damage fails health, and further rebuilds wait")
    func ledger() throws {
        let clock = Clock()
        let ledger = DamageLedger(now: { clock.now })
        ledger.note("a", reason: "x", logger: Self.quiet)
        try ledger.admitRebuild(of: "a")
        #expect(ledger.repeated == [])
        ledger.note("a", reason: "x", logger: Self.quiet)
        #expect(ledger.repeated == ["a"])
        let error = #expect(throws: ServiceError.self) { try ledger.admitRebuild(of: "a") }
        #expect(error?.code == .copyDamaged)
        try ledger.admitRebuild(of: "b")
        clock.move(.seconds(31))
        try ledger.admitRebuild(of: "a")
        for _ in 0..<2 { ledger.note("b", reason: "x", logger: Self.quiet) }
        #expect(ledger.repeated == ["a", "b"])
        // A copy of an erased database is nobody's any more.
        ledger.forget("b")
        #expect(ledger.repeated == ["a"])
        clock.move(.seconds(3_600))
        #expect(ledger.repeated == [])
    }

    private static func configuration(_ data: URL, _ more: [String] = []) throws -> ServiceConfiguration {
        try ServiceConfiguration(
            ServiceOptions.parse(["--data", data.path] + more), port: 1, environment: [:])
    }

    private static func code(_ body: () async throws -> Void) async throws -> ServiceErrorCode? {
        do {
            try await body()
            return nil
        } catch let error as ServiceError {
            return error.code
        }
    }

    @Test("an empty or missing log beside older folders is refused by name, and begun when that is meant")
    func oldInstallation() async throws {
        try await withTemporaryDirectory { data in
            let first = try Self.configuration(data).openLog(logger: Self.quiet)
            try await first.createDatabase(SystemDatabase.id)
            await first.close()
            let copy = data.appendingPathComponent("replicator/cars")
            try FileManager.default.createDirectory(at: copy, withIntermediateDirectories: true)
            try Data([1]).write(to: copy.appendingPathComponent("replica.sqlite"))
            // The log's own folders are no reason to refuse it.
            let again = try Self.configuration(data).openLog(logger: Self.quiet)
            try await again.createDatabase(SystemDatabase.id)
            await again.close()

            let file = data.appendingPathComponent("log.sqlite")
            try FileManager.default.removeItem(at: file)
            for isEmpty in [false, true] {
                if isEmpty { try Data().write(to: file) }
                let error = #expect(throws: ServiceError.self) {
                    _ = try Self.configuration(data).openLog(logger: Self.quiet)
                }
                #expect(error?.code == .logMissing)
                #expect(error?.message.contains(file.path) == true)
                #expect(error?.message.contains("\(data.path)/replicator") == true)
            }
            // A log without any database is empty too.
            let other = ["--log", "sqlite:\(data.path)/other.sqlite"]
            await (try SQLiteOperationLog(path: "\(data.path)/other.sqlite", logger: Self.quiet)).close()
            let empty = try Self.configuration(data, other).openLog(logger: Self.quiet)
            #expect(try await Self.code { try await empty.createDatabase(SystemDatabase.id) } == .logMissing)
            await empty.close()
            let new = try Self.configuration(data, ["--new-log"]).openLog(logger: Self.quiet)
            #expect(try await new.createDatabase(SystemDatabase.id))
            await new.close()
        }
    }

    @Test("attachments alone are an old installation too; secrets alone are none")
    func oldFolders() throws {
        try withTemporaryDirectory { data in
            let manager = FileManager.default
            try manager.createDirectory(atPath: "\(data.path)/auth", withIntermediateDirectories: true)
            try Data([1]).write(to: data.appendingPathComponent("auth/secrets.key"))
            try manager.createDirectory(
                atPath: "\(data.path)/attachments/cars/incoming", withIntermediateDirectories: true)
            #expect(OldInstallation(log: "x", dataFolder: data.path) == nil)
            try manager.createDirectory(
                atPath: "\(data.path)/attachments/cars/ab", withIntermediateDirectories: true)
            try Data([1]).write(to: data.appendingPathComponent("attachments/cars/ab/abc"))
            #expect(OldInstallation(log: "x", dataFolder: data.path)?.folders == ["\(data.path)/attachments"])
        }
    }

    @Test("temporary files lie in the data folder, and health fails while they cannot be made there")
    func temporaryFiles() async throws {
        try await withTemporaryDirectory { folder in
            let configuration = try Self.configuration(folder.appendingPathComponent("data"))
            let log = try configuration.openLog(logger: Self.quiet)
            let part = StoragePart(
                log: log, room: nil, temporary: configuration.temporaryFolder, ledger: DamageLedger())
            #expect(await part.health().detail == nil)
            try FileManager.default.removeItem(atPath: configuration.temporaryFolder)
            #expect(await part.health().detail?.hasPrefix("SRV-0206: temporary files cannot be made") == true)
            await log.close()
        }
    }

    @Test(
        "services' files that others could read are private after the opening; other things stay as they are")
    func privateFiles() async throws {
        try await withTemporaryDirectory { folder in
            let data = folder.appendingPathComponent("data")
            let manager = FileManager.default
            let inner = data.appendingPathComponent("query/cars")
            try manager.createDirectory(at: inner, withIntermediateDirectories: true)
            let foreign = data.appendingPathComponent("photos")
            try manager.createDirectory(at: foreign, withIntermediateDirectories: true)
            let first = try SQLiteOperationLog(path: "\(data.path)/log.sqlite", logger: Self.quiet)
            try await first.createDatabase("cars")
            try Data().write(to: inner.appendingPathComponent("replica.sqlite-wal"))
            try Data().write(to: data.appendingPathComponent("notes.txt"))
            await first.close()
            var paths = ["query", "query/cars"]
            for path in paths + ["", "photos"] {
                try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(data.path)/\(path)")
            }
            let files = ["log.sqlite", "log.sqlite-wake", "query/cars/replica.sqlite-wal"]
            for path in files {
                try manager.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(data.path)/\(path)")
            }
            let log = try Self.configuration(data).openLog(logger: Self.quiet)
            try await log.createDatabase("boats")
            paths += files + ["log.sqlite-wal", "log.sqlite-shm", "log.sqlite-mark"]
            for path in paths {
                let mode =
                    try manager.attributesOfItem(atPath: "\(data.path)/\(path)")[.posixPermissions] as? Int
                #expect((mode ?? 0o777) & 0o077 == 0, "\(path)")
            }
            for path in ["", "photos"] {
                let mode =
                    try manager.attributesOfItem(atPath: "\(data.path)/\(path)")[.posixPermissions] as? Int
                #expect(mode == 0o755, "\(path)")
            }
            await log.close()
        }
    }
}
