import Crypto
import Foundation
import Glibc

/// The blobs of a backup: `attachments/DATABASE/xx/ID`, the form of an attachment-store's folder.
///
/// A blob that the parent has is linked and takes no room; any other is copied and its digest compared with
/// its name. The store's own files are never linked: a disk that damages one would damage the copy.
/// Blobs for a bucket go there at once, and only those that it lacks.
struct BlobCopies {
    /// The attachment-store's folder.
    let source: String
    /// The backup's folder.
    let folder: String
    /// The parent's folder.
    let parent: String?
    /// The bucket for the blobs; nil puts them into the folder.
    var bucket: (any BackupBucket)?

    static let folderName = "attachments"
    static let listName = "attachments.txt"
    private static let shelfCharacters = 2
    private static let idCharacters = 43

    /// Copies all blobs and lists them.
    /// - Throws: `BAK-0101`, `BAK-0103`.
    func copy() async throws -> Manifest.Blobs {
        let list = try OutputFile("\(folder)/\(Self.listName)")
        var count = 0
        var total: Int64 = 0
        var damaged: [String] = []
        for database in try Folder.names(source) where !database.hasPrefix(".") {
            for shelf in try Self.shelves(in: "\(source)/\(database)") {
                let copies = try await copyShelf("\(database)/\(shelf)")
                for (name, outcome) in copies {
                    switch outcome {
                    case .copied(let bytes):
                        count += 1
                        total += bytes
                        try list.write(Array("\(database) \(name) \(bytes)\n".utf8))
                    case .isDamaged:
                        if damaged.count < Limits.namedBlobs { damaged.append("\(database)/\(name)") }
                    case .isGone: break
                    }
                }
            }
        }
        let digest = try list.finish()
        let record = FileRecord(name: Self.listName, bytes: list.bytes, sha256: digest)
        return Manifest.Blobs(list: record, count: count, bytes: total, damaged: damaged)
    }

    /// Visits the blobs in one database's folder of a store, shelf by shelf.
    static func forEach(
        in folder: String, _ body: (_ path: String, _ id: String) throws(BackupError) -> Void
    ) throws(BackupError) {
        for shelf in try shelves(in: folder) {
            for name in try names(onShelf: "\(folder)/\(shelf)") { try body("\(shelf)/\(name)", name) }
        }
    }

    private static func shelves(in folder: String) throws(BackupError) -> [String] {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue
        else { return [] }
        return try Folder.names(folder).filter { $0.utf8.count == shelfCharacters }
    }

    private static func names(onShelf path: String) throws(BackupError) -> [String] {
        try Folder.names(path).filter { $0.utf8.count == idCharacters }
    }

    /// Copies the blobs of one shelf durably.
    private func copyShelf(_ shelf: String) async throws -> [(id: String, outcome: Outcome)] {
        let names = try Self.names(onShelf: "\(source)/\(shelf)")
        guard !names.isEmpty else { return [] }
        guard let bucket else {
            let target = "\(folder)/\(Self.folderName)/\(shelf)"
            try Folder.make(target)
            let copies = try names.map { ($0, try copy("\(shelf)/\($0)", $0)) }
            try Folder.sync(target)
            return copies
        }
        var known: [String: Int64] = [:]
        let prefix = "\(BackedBlobs.prefix)\(shelf)/"
        try await bucket.forEach(prefix) { known[String($0.key.dropFirst(prefix.count))] = $0.bytes }
        var copies: [(id: String, outcome: Outcome)] = []
        for name in names {
            if let bytes = known[name] {
                copies.append((name, .copied(bytes)))
            } else {
                copies.append((name, try await store("\(shelf)/\(name)", name, in: bucket)))
            }
            try Task.checkCancellation()
        }
        return copies
    }

    /// Stores a blob that the bucket lacks, after comparing it with its name.
    private func store(
        _ path: String, _ id: String, in bucket: any BackupBucket
    ) async throws -> Outcome {
        let file = "\(source)/\(path)"
        guard Folder.exists(file) else { return .isGone }
        let input = try InputFile(file)
        var bytes: Int64 = 0
        while let part = try input.read() { bytes += Int64(part.count) }
        guard Self.id(input.digestText) == id else { return Folder.exists(file) ? .isDamaged : .isGone }
        try await bucket.store(file, as: BackedBlobs.prefix + path)
        return .copied(bytes)
    }

    private enum Outcome {
        case copied(Int64)
        case isDamaged
        /// Erased meanwhile.
        case isGone
    }

    private func copy(_ path: String, _ id: String) throws(BackupError) -> Outcome {
        let target = "\(folder)/\(Self.folderName)/\(path)"
        if let parent, link("\(parent)/\(Self.folderName)/\(path)", target) == 0 {
            return .copied(try Self.size(target))
        }
        guard Folder.exists("\(source)/\(path)") else { return .isGone }
        let outcome = try Self.copy("\(source)/\(path)", to: target)
        guard outcome.id == id else {
            try Folder.remove(target)
            return Folder.exists("\(source)/\(path)") ? .isDamaged : .isGone
        }
        return .copied(outcome.bytes)
    }

    /// Copies a file durably.
    /// - Returns: the blob's id by its content, and its size.
    static func copy(_ path: String, to target: String) throws(BackupError) -> (id: String, bytes: Int64) {
        let input = try InputFile(path)
        let output = try OutputFile(target)
        while let part = try input.read() { try output.write(part) }
        return (id(try output.finish()), output.bytes)
    }

    /// The id of a blob whose SHA-256 is this.
    static func id(_ digest: String) -> String {
        Data(Backup.bytes(hexadecimal: digest) ?? []).base64EncodedString().replacing("+", with: "-")
            .replacing("/", with: "_").replacing("=", with: "")
    }

    static func size(_ path: String) throws(BackupError) -> Int64 {
        var found = stat()
        guard stat(path, &found) == 0 else { throw .damaged(path, "is missing") }
        return Int64(found.st_size)
    }

    /// One line of the list.
    struct Line {
        let database: String
        let id: String
        let bytes: Int64

        /// The place below an attachment folder.
        var path: String { "\(database)/\(id.prefix(BlobCopies.shelfCharacters))/\(id)" }
    }

    /// The lines of a backup's list, whose digest is compared.
    static func lines(
        of blobs: Manifest.Blobs, in folder: String, _ body: (Line) async throws -> Void
    ) async throws {
        let file = try InputFile("\(folder)/\(blobs.list.name)")
        var rest: [UInt8] = []
        while let part = try file.read() {
            rest += part
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let words = String(decoding: rest[..<end], as: UTF8.self).split(separator: " ")
                guard words.count == 3, let bytes = Int64(words[2]), !words[0].contains("/"),
                    words[1].utf8.count == idCharacters, !words[1].contains("/")
                else { throw BackupError.damaged(file.path, "is altered") }
                try await body(Line(database: String(words[0]), id: String(words[1]), bytes: bytes))
                rest.removeSubrange(...end)
            }
        }
        guard rest.isEmpty, file.digestText == blobs.list.sha256 else {
            throw BackupError.damaged(file.path, "is altered")
        }
    }
}
