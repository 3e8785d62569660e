import CRDT
import Foundation
import OperationLog
import Synchronization
import TestSupport
import Testing

@testable import Backup

/// A bucket in memory. `objects` guards everything.
private final class MemoryBucket: BackupBucket {
    struct Stored {
        var bytes: [UInt8]
        var time: Int64
    }

    let objects = Mutex<[String: Stored]>([:])
    let clock = Mutex<Int64>(1_800_000_000)
    /// The key at whose storing the "process" ends.
    let fatal = Mutex<String?>(nil)

    func store(_ path: String, as key: String) async throws {
        if let fatal = fatal.withLock({ $0 }), key.hasSuffix(fatal) {
            throw BackupError(.bucketUnusable, "the bucket does not answer")
        }
        let bytes = [UInt8](try #require(FileManager.default.contents(atPath: path)))
        let time = clock.withLock { $0 }
        objects.withLock { $0[key] = Stored(bytes: bytes, time: time) }
    }

    func read(_ key: String, _ body: ([UInt8]) throws -> Void) async throws -> Bool {
        guard let found = objects.withLock({ $0[key] }) else { return false }
        try body(Array(found.bytes.prefix(10)))
        try body(Array(found.bytes.dropFirst(10)))
        return true
    }

    func remove(_ key: String) async throws { objects.withLock { $0[key] = nil } }

    func forEach(_ prefix: String, _ body: (BackupObject) async throws -> Void) async throws {
        let found = objects.withLock { $0.filter { $0.key.hasPrefix(prefix) } }
        for (key, stored) in found.sorted(by: { $0.key < $1.key }) {
            try await body(
                BackupObject(key: key, bytes: Int64(stored.bytes.count), storedAtSeconds: stored.time))
        }
    }

    func keys(_ prefix: String) -> [String] {
        objects.withLock { $0.keys.filter { $0.hasPrefix(prefix) }.sorted() }
    }
}

@Suite("Backups in a bucket", .timeLimit(.minutes(2)))
struct BucketBackupTests {
    private static func options(_ blobs: String, isIncremental: Bool) -> BackupMaker.Options {
        var options = BackupMaker.Options()
        (options.attachments, options.isIncremental) = (blobs, isIncremental)
        return options
    }

    private struct Scene {
        let place: Place
        let bucket = MemoryBucket()
        let log: SQLiteOperationLog
        let author: Author

        init(_ place: Place) async throws {
            self.place = place
            log = try place.log("log")
            author = try await Author(log, folder: place.folder)
        }

        var backups: BucketBackups {
            BucketBackups(bucket, scratch: place.folder.path, logger: Author.quiet)
        }

        @discardableResult
        func make(_ texts: [String], isIncremental: Bool) async throws -> Manifest {
            let blobs = try BlobTests.store(place, texts)
            try FileManager.default.createDirectory(atPath: blobs, withIntermediateDirectories: true)
            return try #require(
                try await backups.make(log, BucketBackupTests.options(blobs, isIncremental: isIncremental)))
        }
    }

    @Test("a chain in a bucket is verified, and restored to each of its ends with its blobs")
    func chain() async throws {
        try await Place.use { place in
            let scene = try await Scene(place)
            var random = SplitMix64(seed: 44)
            try await scene.author.writeSome(9, &random)
            let first = try await scene.make(["one"], isIncremental: false)
            let firstEnd = scene.author.digests.count - 1
            try await scene.author.writeSome(9, &random)
            let second = try await scene.make(["two"], isIncremental: true)
            #expect(second.parent?.name == first.name)
            #expect(second.part(of: "app")?.base == .parent)
            #expect(scene.bucket.keys("blobs/").count == 2)
            #expect(try await scene.backups.list().map(\.name) == [first.name, second.name])
            #expect(try await scene.backups.verify(nil).databases.allSatisfy(\.isCompared))
            let ends = [(first.name, firstEnd, 1), (second.name, scene.author.digests.count - 1, 2)]
            for (number, (name, end, blobs)) in ends.enumerated() {
                var options = Restorer.Options()
                options.attachments = "\(place.folder.path)/blobs-\(number)"
                let report = try await scene.backups.restore(
                    name, options, into: try place.log("target-\(number)"))
                #expect(report.databases.map(\.digest) == [scene.author.digests[end]])
                #expect(report.blobs.written == blobs)
            }
            // Nothing of the bucket's files stays on this machine.
            let left = try FileManager.default.contentsOfDirectory(atPath: place.folder.path)
            #expect(left.filter { $0.hasPrefix(".") } == [])
            try scene.author.close()
        }
    }

    @Test("an altered, cut or missing object is named by verify and refused by restore")
    func damage() async throws {
        try await Place.use { place in
            let scene = try await Scene(place)
            try await scene.author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let made = try await scene.make(["one"], isIncremental: false)
            let target = try place.log("target")
            for key in scene.bucket.keys("") {
                let whole = try #require(scene.bucket.objects.withLock { $0[key] })
                var flipped = whole
                flipped.bytes[whole.bytes.count / 2] ^= 4
                var cut = whole
                cut.bytes.removeLast(1)
                for damaged in [flipped, cut, nil] {
                    scene.bucket.objects.withLock { $0[key] = damaged }
                    let found = try await code { _ = try await scene.backups.verify(nil) }
                    // Without its manifest there is no backup.
                    let isAbsent = damaged == nil && key.hasSuffix(Manifest.file)
                    #expect(found == (isAbsent ? .unknownBackup : .damaged), "\(key)")
                    var options = Restorer.Options()
                    options.attachments = "\(place.folder.path)/blobs"
                    let asked = options
                    let refused = try await code {
                        _ = try await scene.backups.restore(made.name, asked, into: target)
                    }
                    // A blob that is missing is reported, and no error.
                    let isReported = damaged == nil && key.hasPrefix("blobs/")
                    #expect((refused == nil) == isReported, "\(key)")
                    for database in try await target.databases() { try await target.eraseDatabase(database) }
                }
                scene.bucket.objects.withLock { $0[key] = whole }
            }
            try scene.author.close()
        }
    }

    @Test("an interrupted backup is listed by nobody, and the next one removes what it left")
    func interrupted() async throws {
        try await Place.use { place in
            let scene = try await Scene(place)
            try await scene.author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let first = try await scene.make([], isIncremental: false)
            try await scene.author.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            for step in ["log-app.bin", Manifest.sumFile, Manifest.file] {
                scene.bucket.fatal.withLock { $0 = "/\(step)" }
                #expect(
                    try await code { try await scene.make([], isIncremental: true) } == .bucketUnusable)
                #expect(try await scene.backups.list().map(\.name) == [first.name])
            }
            scene.bucket.fatal.withLock { $0 = nil }
            let second = try await scene.make([], isIncremental: true)
            #expect(try await scene.backups.list().map(\.name) == [first.name, second.name])
            #expect(Set(scene.bucket.keys("").map { $0.split(separator: "/")[0] }).count == 2)
            try scene.author.close()
        }
    }

    @Test("one process at a time changes the backups; a killed one's mark counts for five minutes")
    func turn() async throws {
        try await Place.use { place in
            let scene = try await Scene(place)
            let mark = "turn/other"
            let stored = MemoryBucket.Stored(bytes: [1], time: 1_800_000_000)
            scene.bucket.objects.withLock { $0[mark] = stored }
            #expect(try await code { try await scene.make([], isIncremental: false) } == .folderBusy)
            #expect(scene.bucket.keys("turn/") == [mark])
            scene.bucket.clock.withLock { $0 += Limits.turnSeconds + 1 }
            try await scene.make([], isIncremental: false)
            #expect(scene.bucket.keys("turn/") == [])
            try scene.author.close()
        }
    }

    @Test("pruning removes whole backups, and blobs that no other one has")
    func pruning() async throws {
        try await Place.use { place in
            let scene = try await Scene(place)
            try await scene.author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let first = try await scene.make(["one", "two"], isIncremental: false)
            let store = "\(place.folder.path)/attachments"
            let names = try FileManager.default.subpathsOfDirectory(atPath: store)
            let one = try #require(
                names.first {
                    (try? String(contentsOfFile: "\(place.folder.path)/attachments/\($0)", encoding: .utf8))
                        == "one"
                })
            try FileManager.default.removeItem(atPath: "\(place.folder.path)/attachments/\(one)")
            let second = try await scene.make([], isIncremental: false)
            #expect(try await scene.backups.prune(Pruning(), isDry: true) == [first.name])
            #expect(scene.bucket.keys("blobs/").count == 2)
            #expect(try await scene.backups.prune(Pruning(), isDry: false) == [first.name])
            #expect(try await scene.backups.list().map(\.name) == [second.name])
            #expect(scene.bucket.keys("blobs/").count == 1)
            #expect(!scene.bucket.keys("blobs/").contains("blobs/\(one)"))
            #expect(try await scene.backups.verify(nil).name == second.name)
            try scene.author.close()
        }
    }
}
