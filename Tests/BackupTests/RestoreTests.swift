import CRDT
import Foundation
import OperationLog
import Postgres
import TestSupport
import Testing

@testable import Backup

@Suite("Backup and restore", .timeLimit(.minutes(4)))
struct RestoreTests {
    @Test("a chain of backups, with the log truncated between, restores the fold of any offset it reaches")
    func offsets() async throws {
        try await Place.use { place in
            var random = SplitMix64(seed: Depth.seed)
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.writeSome(20, &random)
            try await author.truncate()
            let base = author.digests.count - 1
            try await author.writeSome(15, &random)
            try await place.backUp(log)
            for _ in 0..<3 {
                try await author.writeSome(10, &random)
                try await place.backUp(log) { $0.isIncremental = true }
            }
            let last = author.digests.count - 1
            for round in 0..<Depth.pick(fast: 8, deep: 100) {
                let offset = round == 0 ? base : base + random.below(last - base + 1)
                let target = try place.log("target-\(round)")
                let report = try await place.restore(into: target) {
                    ($0.point, $0.database) = (.offset(Offset(UInt64(offset))), "app")
                }
                #expect(report.databases.map(\.digest) == [author.digests[offset]], "at \(offset)")
                let head = try await target.head(of: "app")
                #expect(head.offset == Offset(UInt64(offset)))
                #expect(try await head.logID != log.head(of: "app").logID)
                await target.close()
            }
            let before = try await code {
                try await place.restore(into: try place.log("none")) {
                    ($0.point, $0.database) = (.offset(Offset(UInt64(base - 1))), "app")
                }
            }
            #expect(before == .pointUnreachable)
            try author.close()
            await log.close()
        }
    }

    @Test("a restored log goes on: its actors stand where they stood, and another backup continues it")
    func goesOn() async throws {
        try await Place.use { place in
            var random = SplitMix64(seed: 7)
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 'a'})", as: 9)
            try await author.writeSome(10, &random)
            try await author.truncate()
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 'b'})", as: 8)
            try await place.backUp(log)
            let target = try place.log("target")
            try await place.restore(into: target)
            let actors = (1...9).map { ActorID($0) }
            let stands = try await target.frontier(of: actors, in: "app")
            #expect(try await stands == log.frontier(of: actors, in: "app"))
            let again = try await Author(target, "second", folder: place.folder)
            try await again.execute("INSERT INTO c DOCUMENTS ({'_id': 'a'})")
            let manifest = try await place.backUp(target) { $0.isIncremental = true }
            // The log is another one, so its database is copied from the beginning of what it has.
            #expect(manifest.part(of: "app")?.base == .snapshot)
            #expect(manifest.part(of: "second")?.base == .beginning)
            let verifier = BackupVerifier(place.backups, logger: Author.quiet)
            #expect(try await verifier.verify(manifest.name).count == 3)
            try author.close()
            try again.close()
        }
    }

    @Test(
        "the state of a time is the longest beginning without a later write; databases made later are absent")
    func times() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            for id in 1...3 {
                try await author.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})")
                try await Task.sleep(for: .milliseconds(5))
            }
            let later = try await Author(log, "later", folder: place.folder)
            try await later.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try await place.backUp(log)
            let target = try place.log("target")
            let report = try await place.restore(into: target) { $0.point = .time(author.times[3] - 1) }
            #expect(report.databases.map(\.digest) == [author.digests[2]])
            #expect(report.databases.map(\.time) == [author.times[2]])
            #expect(report.absent == ["later"])
            #expect(try await target.databases() == ["app"])
            let tooEarly = try await code {
                try await place.restore(into: try place.log("none")) { $0.point = .time(1) }
            }
            #expect(tooEarly == .pointUnreachable)
            try author.close()
            try later.close()
        }
    }

    @Test("an incremental backup begins again with the snapshot where the log was truncated in between")
    func truncatedBetween() async throws {
        try await Place.use { place in
            var random = SplitMix64(seed: 11)
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.writeSome(10, &random)
            try await place.backUp(log)
            let first = author.digests.count - 1
            try await author.writeSome(10, &random)
            try await author.truncate()
            let manifest = try await place.backUp(log) { $0.isIncremental = true }
            #expect(manifest.parent != nil)
            #expect(manifest.part(of: "app")?.base == .snapshot)
            for offset in [first, author.digests.count - 1] {
                let target = try place.log("target-\(offset)")
                let report = try await place.restore(into: target) {
                    ($0.point, $0.database) = (.offset(Offset(UInt64(offset))), "app")
                }
                #expect(report.databases.map(\.digest) == [author.digests[offset]])
            }
            try author.close()
        }
    }

    @Test("backups of a log that is written all the while are each the fold of their offset")
    func underLoad() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            var manifests: [Manifest] = []
            try await withThrowingTaskGroup(of: Void.self) { group in
                let isDone = Flag()
                group.addTask {
                    for round in 0..<Depth.pick(fast: 4, deep: 40) {
                        let made = try await Place(folder: place.folder).backUp(log) {
                            $0.isIncremental = round % 3 != 0
                        }
                        await isDone.note(made)
                    }
                    await isDone.end()
                }
                var random = SplitMix64(seed: 3)
                while await !isDone.isOver { try await author.writeSome(5, &random) }
                try await group.waitForAll()
                manifests = await isDone.manifests
            }
            for manifest in manifests {
                let part = try #require(manifest.part(of: "app"))
                #expect(part.digest == author.digests[Int(part.through)].text)
            }
            let target = try place.log("target")
            let report = try await place.restore(into: target)
            #expect(report.databases.first?.digest?.text == manifests.last?.part(of: "app")?.digest)
            try author.close()
        }
    }

    @Test("a restore writes into an empty log only; --replace needs the server to be down, and replaces all")
    func liveData() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try await place.backUp(log)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            let before = try await log.head(of: "app")
            #expect(try await code { try await place.restore(into: log) } == .targetNotEmpty)
            let user = try place.log("log")
            #expect(
                try await code { try await place.restore(into: log) { $0.replaces = true } } == .targetInUse)
            #expect(try await log.head(of: "app") == before)
            await user.close()
            try await log.createDatabase("other")
            try await place.restore(into: log) { ($0.database, $0.newName) = ("app", "copy") }
            #expect(try await log.databases() == ["app", "other", "copy"])
            #expect(try await log.head(of: "copy").offset == 1)
            try await place.restore(into: log) { $0.replaces = true }
            #expect(try await log.databases() == ["app"])
            #expect(try await log.head(of: "app").offset == 1)
            try author.close()
        }
    }

    @Test("a dry run tells what it would restore, and writes nothing")
    func dry() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try await place.backUp(log)
            let target = try place.log("target")
            let report = try await place.restore(into: target) { $0.isDry = true }
            #expect(report.databases.map(\.offset) == [1])
            #expect(try await target.databases().isEmpty)
            let unknown = try await code { try await place.restore(into: target) { $0.database = "nobody" } }
            #expect(unknown == .unknownDatabase)
            #expect(
                try await code { try await place.restore(into: target, from: "backup-none") }
                    == .unknownBackup)
            try author.close()
        }
    }

    @Test(
        "a backup of one driver's log restores into the other's",
        .enabled(if: ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] != nil))
    func acrossDrivers() async throws {
        try await Place.use { place in
            let server = try #require(ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"])
            var random = SplitMix64(seed: 5)
            let log = try place.log("log")
            let name = DatabaseID("across-\(UInt64.random(in: 1...UInt64.max))")
            let author = try await Author(log, name, folder: place.folder)
            try await author.writeSome(20, &random)
            try await author.truncate()
            try await author.writeSome(20, &random)
            try await place.backUp(log)
            let postgres = try PostgresOperationLog(url: server, logger: Author.quiet)
            let there = try await place.restore(into: postgres) { $0.database = name }
            #expect(there.databases.map(\.digest) == [author.digests.last])
            var options = BackupMaker.Options()
            options.database = name
            let back = BackupFolder(place.folder.appendingPathComponent("back").path)
            _ = try await BackupMaker(postgres, into: back, options, logger: Author.quiet).make()
            let target = try place.log("target")
            let report = try await Restorer(back.path, Restorer.Options(), logger: Author.quiet)
                .restore(into: target)
            #expect(report.databases.map(\.digest) == [author.digests.last])
            try await postgres.eraseDatabase(name)
            await postgres.close()
            try author.close()
        }
    }
}

/// Tells a writer when the other task is done.
private actor Flag {
    private(set) var isOver = false
    private(set) var manifests: [Manifest] = []

    func note(_ manifest: Manifest) { manifests.append(manifest) }
    func end() { isOver = true }
}
