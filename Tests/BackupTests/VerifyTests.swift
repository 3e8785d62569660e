import CRDT
import Foundation
import OperationLog
import Replica
import Synchronization
import TestSupport
import Testing

@testable import Backup

@Suite("Verification of a log in use")
struct VerifyTests {
    private static func verifier(
        _ log: any OperationLog, _ place: Place, rate: Int? = nil, progress: BackupProgress = .unwatched
    ) -> LogVerifier {
        LogVerifier(
            log, scratch: place.folder.path, bytesPerSecond: rate, logger: Author.quiet, progress: progress)
    }

    @Test("a copy, its folding, a restore and checks tell a watcher how far they are")
    func progress() async throws {
        try await Place.use { place in
            let told = Mutex<[String: [(done: UInt64, all: UInt64)]]>([:])
            let log = try place.log("log")
            try await log.createDatabase("cars")
            let all = (1...3_000).map { (number: UInt64) in
                AppendRequest(
                    CRDT.Operation(
                        actor: ActorID(1), sequence: SequenceNumber(number), timestamp: number, changes: []),
                    authorKey: "key")
            }
            _ = try await log.append(all, to: "cars")
            let backups = place.folder.appendingPathComponent("backups").path
            let target = try place.log("target")
            let progress = BackupProgress { step, done, all in
                told.withLock { $0[step, default: []].append((done, all)) }
            }
            _ = try await BackupMaker(
                log, into: BackupFolder(backups), BackupMaker.Options(), logger: Author.quiet,
                progress: progress
            ).make()
            _ = try await Self.verifier(log, place, progress: progress).verify("cars")
            _ = try await Restorer(
                backups, Restorer.Options(), logger: Author.quiet, progress: progress
            ).restore(into: target)
            let steps = told.withLock { $0 }
            #expect(
                Set(steps.keys)
                    == ["copying cars", "folding cars", "reading cars", "writing cars", "checking cars"])
            for (step, tells) in steps {
                #expect(tells.allSatisfy { $0.done <= $0.all && $0.all == 3_000 }, "\(step)")
                #expect(tells.map(\.done) == tells.map(\.done).sorted(), "\(step)")
            }
            #expect(steps["copying cars"]?.last?.done == 3_000)
            let count = steps.count
            _ = try await Self.verifier(log, place).verify("cars")
            #expect(told.withLock { $0.count } == count)
        }
    }

    @Test("a log that is well has the digest of its documents, and its snapshot is compared while it can be")
    func well() async throws {
        try await Place.use { place in
            var random = SplitMix64(seed: 23)
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.writeSome(10, &random)
            try await author.snapshot()
            try await author.writeSome(10, &random)
            let whole = try await Self.verifier(log, place).verify("app")
            #expect(whole.findings.isEmpty && whole.comparesSnapshot)
            #expect(whole.digest == author.digests.last)
            try await author.truncate()
            try await author.writeSome(5, &random)
            let cut = try await Self.verifier(log, place).verify("app")
            #expect(cut.findings.isEmpty && !cut.comparesSnapshot)
            #expect(cut.truncated > 0 && cut.digest == author.digests.last)
            // Nothing is left of the folds.
            let names = try FileManager.default.contentsOfDirectory(atPath: place.folder.path)
            #expect(!names.contains { $0.hasPrefix(".") })
            try author.close()
        }
    }

    @Test("a snapshot and a projection that say something else than the log are named")
    func different() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let other = try await Author(log, "other", folder: place.folder)
            try await other.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            // The other database's documents, under the place of the first one.
            try await author.snapshot(of: other)
            let head = try await log.head(of: "app")
            let wrong: [CollectionName: FoldDigest] = ["c": other.digests[1]]
            let found = try await Self.verifier(log, place).verify("app")
            #expect(found.findings.map(\.code) == ["BAK-0205"])
            try await author.snapshot()
            let projected = ProjectedDigests(position: head, collections: wrong)
            let compared = try await Self.verifier(log, place).verify("app", projected: projected)
            #expect(compared.projection == 1)
            #expect(compared.findings.map(\.code) == ["BAK-0205"])
            #expect(compared.findings.first?.message.contains("collection c") == true)
            let right = ProjectedDigests(position: head, collections: ["c": author.digests[1]])
            #expect(try await Self.verifier(log, place).verify("app", projected: right).findings.isEmpty)
            try author.close()
            try other.close()
        }
    }

    @Test("a rate holds the reading back")
    func rate() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            for id in 0..<5 { try await author.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
            let bytes = try await log.read("app", after: 0).reduce(0) { $0 + $1.bytes.count }
            let began = ContinuousClock.now
            _ = try await Self.verifier(log, place, rate: bytes * 5).verify("app")
            #expect(began.duration(to: .now) >= .milliseconds(190))
            try author.close()
        }
    }

    @Test("blobs that are not what their names say are named")
    func blobs() async throws {
        try await Place.use { place in
            let store = try BlobTests.store(place, ["one", "two"])
            #expect(try await BlobCheck(folder: store).run().damaged.isEmpty)
            let two = try #require(
                FileManager.default.subpathsOfDirectory(atPath: store).first {
                    (try? String(contentsOfFile: "\(store)/\($0)", encoding: .utf8)) == "two"
                })
            try Data("tow".utf8).write(to: URL(fileURLWithPath: "\(store)/\(two)"))
            let report = try await BlobCheck(folder: store, bytesPerSecond: 1_000_000).run()
            #expect(report.count == 2 && report.damaged.count == 1)
            #expect(try await BlobCheck(folder: store).run(only: "other").count == 0)
        }
    }
}
