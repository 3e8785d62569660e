import CRDT
import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Backup

@Suite("Backups that are damaged or interrupted", .timeLimit(.minutes(4)))
struct DamageTests {
    /// A chain of two with a snapshot, operations, blobs and a sealed key.
    private static func chain(_ place: Place) async throws -> [Manifest] {
        var random = SplitMix64(seed: 17)
        let log = try place.log("log")
        let author = try await Author(log, folder: place.folder)
        try await author.writeSome(12, &random)
        try await author.truncate()
        try await author.writeSome(6, &random)
        let blobs = try BlobTests.store(place, ["one", "two"])
        let key = try BlobTests.key(place)
        let change: (inout BackupMaker.Options) -> Void = {
            $0.attachments = blobs
            $0.key = (key, "a long passphrase")
            $0.keyRounds = 1_000
        }
        let first = try await place.backUp(log, change)
        try await author.writeSome(6, &random)
        let second = try await place.backUp(log) {
            change(&$0)
            $0.isIncremental = true
        }
        try author.close()
        await log.close()
        return [first, second]
    }

    @Test(
        "a flipped byte and a cut in each file of a chain are found by verify, and by restore at first"
    )
    func damage() async throws {
        try await Place.use { place in
            let chain = try await Self.chain(place)
            let newest = chain[1].name
            let verifier = BackupVerifier(place.backups, logger: Author.quiet)
            #expect(try await verifier.verify(newest).allSatisfy(\.isCompared))
            let target = try place.log("target")
            var random = SplitMix64(seed: Depth.seed)
            let files = try FileManager.default.subpathsOfDirectory(atPath: place.backups.path)
                .map { "\(place.backups.path)/\($0)" }
                .filter { !$0.hasSuffix("/.lock") && Self.isFile($0) }
            #expect(files.count >= 14)
            for file in files {
                let whole = try #require(FileManager.default.contents(atPath: file))
                for _ in 0..<Depth.pick(fast: 1, deep: 30) {
                    var flipped = whole
                    flipped[random.below(whole.count)] ^= UInt8(1 << random.below(8))
                    for damaged in [flipped, whole.prefix(random.below(whole.count))] {
                        // A blob's file is shared by both backups: the write replaces it in one.
                        try damaged.write(to: URL(fileURLWithPath: file), options: .atomic)
                        let found = try await code { _ = try await verifier.verify(newest) }
                        #expect(
                            [.damaged, .newerFormat, .chainBroken].contains(found), "\(file) \(found as Any)")
                        let refused = try await code {
                            _ = try await place.restore(into: target, from: newest) {
                                $0.attachments = place.folder.appendingPathComponent("blobs").path
                                $0.key = (place.folder.appendingPathComponent("k").path, "a long passphrase")
                            }
                        }
                        let isOfParent = file.contains(chain[0].name)
                        let isBeside = ["attachments", "sealed"].contains { file.contains($0) }
                        #expect(refused != nil || isOfParent && isBeside, "\(file)")
                        try await target.discardDrafts()
                        for database in try await target.databases() {
                            #expect(refused == nil)
                            try await target.eraseDatabase(database)
                        }
                        try? FileManager.default.removeItem(at: place.folder.appendingPathComponent("k"))
                        try? FileManager.default.removeItem(at: place.folder.appendingPathComponent("blobs"))
                    }
                }
                try whole.write(to: URL(fileURLWithPath: file), options: .atomic)
            }
            #expect(try await verifier.verify(newest).allSatisfy(\.isCompared))
        }
    }

    private static func isFile(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder.boolValue
    }

    @Test("a backup that ends at any step is listed by nobody, and the next one removes what it left")
    func interrupted() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let author = try await Author(log, folder: place.folder)
            try await author.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try await place.backUp(log)
            let blobs = try BlobTests.store(place, ["one"])
            let states = Copies(of: place.backups.path, in: place.folder.path)
            var options = BackupMaker.Options()
            options.attachments = blobs
            options.isIncremental = true
            let maker = BackupMaker(log, into: place.backups, options, logger: Author.quiet) {
                states.take($0)
            }
            _ = try await maker.make()
            #expect(
                states.steps == [
                    "begun", "database", "log", "attachments", "digests", "manifest", "published",
                ])
            for (number, step) in states.steps.enumerated() {
                // The folder as a process that was killed after this step leaves it.
                let left = BackupFolder("\(place.folder.path)/copy-\(number)")
                #expect(try left.list().count == (step == "published" ? 2 : 1), "after \(step)")
                let next = try await BackupMaker(log, into: left, options, logger: Author.quiet).make()
                #expect(
                    try FileManager.default.contentsOfDirectory(atPath: left.path).filter {
                        $0.hasPrefix(".")
                    }
                        == [".lock"])
                _ = try await BackupVerifier(left, logger: Author.quiet).verify(next.name)
            }
            try author.close()
        }
    }

    @Test("a newer format is refused, and a second backup at the same time too")
    func refused() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            try await log.createDatabase("app")
            var manifest = try await place.backUp(log)
            manifest.format = Manifest.currentFormat + 1
            let path = "\(place.backups.path)/\(manifest.name)"
            for file in [Manifest.file, Manifest.sumFile] {
                try FileManager.default.removeItem(atPath: "\(path)/\(file)")
            }
            try manifest.write(to: path)
            let before = try FileManager.default.subpathsOfDirectory(atPath: path)
            #expect(
                try await code { try await place.restore(into: log, from: manifest.name) } == .newerFormat)
            #expect(try FileManager.default.subpathsOfDirectory(atPath: path) == before)
            let lock = try place.backups.lock()
            #expect(try await code { try await place.backUp(log) } == .folderBusy)
            withExtendedLifetime(lock) {}
            #expect(throws: BackupError.self) { try BackupFolder("/proc/none").lock() }
        }
    }

    @Test("an incremental backup whose parent is gone is not restored")
    func orphan() async throws {
        try await Place.use { place in
            let chain = try await Self.chain(place)
            try place.backups.remove(chain[0].name)
            let target = try place.log("target")
            #expect(try await code { try await place.restore(into: target) } == .chainBroken)
        }
    }
}

/// Copies of a folder, as it was at each step.
private final class Copies: @unchecked Sendable {
    // Unchecked because the steps of one backup come one after the other.
    private(set) var steps: [String] = []
    private let source: String
    private let target: String

    init(of source: String, in target: String) { (self.source, self.target) = (source, target) }

    func take(_ step: String) {
        #expect(throws: Never.self) {
            try FileManager.default.copyItem(atPath: source, toPath: "\(target)/copy-\(steps.count)")
        }
        steps.append(step)
    }
}
