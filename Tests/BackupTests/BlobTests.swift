import Crypto
import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Backup

@Suite("Blobs, keys and pruning of backups")
struct BlobTests {
    /// A folder as an attachment-store has it, with a blob for each text.
    static func store(_ place: Place, _ texts: [String]) throws -> String {
        let folder = place.folder.appendingPathComponent("attachments")
        for text in texts {
            let id = BlobCopies.id(hexadecimal(Array(SHA256.hash(data: Data(text.utf8)))))
            let shelf = folder.appendingPathComponent("app/\(id.prefix(2))")
            try FileManager.default.createDirectory(at: shelf, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: shelf.appendingPathComponent(id))
        }
        return folder.path
    }

    static func key(_ place: Place) throws -> String {
        let file = place.folder.appendingPathComponent("secrets.key")
        try Data("the key".utf8).write(to: file)
        try Data("the key before".utf8).write(to: URL(fileURLWithPath: "\(file.path).previous"))
        return file.path
    }

    private static func node(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? Int
    }

    @Test("a blob that the parent has takes no room; one that is damaged in the store is named and left out")
    func blobs() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            try await log.createDatabase("app")
            let store = try Self.store(place, ["one"])
            let first = try await place.backUp(log) { $0.attachments = store }
            #expect(first.attachments?.count == 1)
            let damaged = try Self.store(place, ["two", "three"])
            let names = try FileManager.default.subpathsOfDirectory(atPath: damaged)
            let two = try #require(
                names.first { (try? String(contentsOfFile: "\(damaged)/\($0)", encoding: .utf8)) == "two" })
            try Data("tow".utf8).write(to: URL(fileURLWithPath: "\(damaged)/\(two)"))
            let second = try await place.backUp(log) { ($0.attachments, $0.isIncremental) = (store, true) }
            #expect(second.attachments?.count == 2)
            #expect(second.attachments?.damaged.count == 1)
            let one = try #require(
                names.first { (try? String(contentsOfFile: "\(store)/\($0)", encoding: .utf8)) == "one" })
            let copies = [first, second].map { "\(place.backups.path)/\($0.name)/attachments/\(one)" }
            #expect(try Self.node(copies[0]) == Self.node(copies[1]))
            #expect(try Self.node(copies[0]) != Self.node("\(store)/\(one)"))
            let target = place.folder.appendingPathComponent("restored").path
            try FileManager.default.removeItem(atPath: copies[1])
            let report = try await place.restore(into: try place.log("target"), from: second.name) {
                $0.attachments = target
            }
            #expect(report.missing == [one])
            #expect(report.blobs.written == 1)
        }
    }

    @Test("the sealing keys come back with the passphrase only, and never over another key")
    func keys() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            try await log.createDatabase("app")
            let key = try Self.key(place)
            let manifest = try await place.backUp(log) {
                ($0.key, $0.keyRounds) = ((key, "correct horse battery"), 1_000)
            }
            let sealed = "\(place.backups.path)/\(manifest.name)/\(SealedKey.name)"
            let content = try #require(FileManager.default.contents(atPath: sealed))
            #expect(content.range(of: Data("the key".utf8)) == nil)
            let target = place.folder.appendingPathComponent("new/secrets.key").path
            let restored = { (passphrase: String, path: String, log: String) in
                try await code {
                    try await place.restore(into: try place.log(log)) { $0.key = (path, passphrase) }
                }
            }
            #expect(try await restored("another passphrase", target, "a") == .passphraseWrong)
            #expect(try await restored("correct horse battery", "\(key).previous", "b") == .keyUnusable)
            #expect(try await restored("correct horse battery", key, "d") == nil)
            #expect(try await restored("correct horse battery", target, "c") == nil)
            #expect(FileManager.default.contents(atPath: target) == Data("the key".utf8))
            #expect(FileManager.default.contents(atPath: "\(target).previous") == Data("the key before".utf8))
            // A half of what a restore writes is completed, another previous key is refused.
            try FileManager.default.removeItem(atPath: "\(target).previous")
            #expect(try await restored("correct horse battery", target, "e") == nil)
            #expect(FileManager.default.contents(atPath: "\(target).previous") == Data("the key before".utf8))
            try Data("a third key".utf8).write(to: URL(fileURLWithPath: "\(target).previous"))
            #expect(try await restored("correct horse battery", target, "f") == .keyUnusable)
            // Nothing was published by the refused ones.
            #expect(try await place.log("b").databases().isEmpty)
        }
    }

    @Test("a passphrase file has one line of twelve characters or more")
    func passphrases() async throws {
        try await Place.use { place in
            let file = place.folder.appendingPathComponent("passphrase").path
            for (text, expected) in [
                ("long enough 12\nrest\n", "long enough 12"), ("short\n", nil), ("", nil),
            ] {
                try Data(text.utf8).write(to: URL(fileURLWithPath: file))
                #expect((try? SealedKey.passphrase(file: file)) == expected)
            }
            #expect(throws: BackupError.self) { try SealedKey.passphrase(file: "\(file)-none") }
        }
    }

    /// A manifest of a day and hour, which continues another.
    private static func manifest(_ day: UInt64, _ hour: UInt64, after parent: String? = nil) -> Manifest {
        let name = "backup-\(day < 10 ? "0" : "")\(day)-\(hour < 10 ? "0" : "")\(hour)"
        return Manifest(
            format: 1, id: name, name: name, parent: parent.map { .init(name: $0, id: $0) },
            createdAt: (day * 24 + hour) * 3_600_000, version: "", databases: [])
    }

    @Test("pruning keeps the newest of days and weeks, and what they continue")
    func pruning() throws {
        // Days since 1970-01-01, a Thursday: 4 is a Monday.
        let all = [
            Self.manifest(1, 0), Self.manifest(2, 0, after: "backup-01-00"), Self.manifest(4, 0),
            Self.manifest(5, 1), Self.manifest(5, 9), Self.manifest(6, 3), Self.manifest(12, 0),
        ]
        var pruning = Pruning()
        #expect(pruning.removed(from: all) == all.dropLast().map(\.name))
        pruning.keptDays = 3
        #expect(
            pruning.removed(from: all) == ["backup-01-00", "backup-02-00", "backup-04-00", "backup-05-01"])
        (pruning.keptDays, pruning.keptWeeks) = (0, 3)
        // The newest of the first week continues an older one.
        #expect(pruning.removed(from: all) == ["backup-04-00", "backup-05-01", "backup-05-09"])
        pruning.keptLast = 4
        #expect(pruning.removed(from: all) == ["backup-04-00"])
    }

    @Test("pruning removes folders, and a dry run none")
    func pruningFolders() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            try await log.createDatabase("app")
            for _ in 0..<3 { try await place.backUp(log) }
            let newest = try place.backups.list().map(\.name)
            #expect(try Pruning().run(in: place.backups, isDry: true).count == 2)
            #expect(try place.backups.list().count == 3)
            #expect(try Pruning().run(in: place.backups, isDry: false) == Array(newest.dropLast().reversed()))
            #expect(try place.backups.list().map(\.name) == [newest[2]])
        }
    }
}
