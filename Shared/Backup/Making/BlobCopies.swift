import Crypto
import Foundation
import Glibc

/// The blobs of a backup: `attachments/DATABASE/xx/ID`, the form of an attachment-store's folder.
///
/// A blob that the parent has is linked and takes no room; any other is copied and its digest compared with
/// its name. The store's own files are never linked: a disk that damages one would damage the copy.
struct BlobCopies {
    /// The attachment-store's folder.
    let source: String
    /// The backup's folder.
    let folder: String
    /// The parent's folder.
    let parent: String?

    static let folderName = "attachments"
    static let listName = "attachments.txt"
    private static let shelfCharacters = 2
    private static let idCharacters = 43

    /// Copies all blobs and lists them.
    /// - Throws: `BAK-0101`.
    func copy() throws(BackupError) -> Manifest.Blobs {
        let list = try OutputFile("\(folder)/\(Self.listName)")
        var count = 0
        var total: Int64 = 0
        var damaged: [String] = []
        for database in try Folder.names(source) where !database.hasPrefix(".") {
            var shelf = ""
            try Self.forEach(in: "\(source)/\(database)") { path, name throws(BackupError) in
                let place = "\(database)/\(name.prefix(Self.shelfCharacters))"
                if shelf != place {
                    if !shelf.isEmpty { try Folder.sync("\(folder)/\(Self.folderName)/\(shelf)") }
                    try Folder.make("\(folder)/\(Self.folderName)/\(place)")
                    shelf = place
                }
                switch try copy("\(database)/\(path)", name) {
                case .copied(let bytes):
                    count += 1
                    total += bytes
                    try list.write(Array("\(database) \(name) \(bytes)\n".utf8))
                case .isDamaged:
                    if damaged.count < Limits.namedBlobs { damaged.append("\(database)/\(name)") }
                case .isGone: break
                }
            }
            if !shelf.isEmpty { try Folder.sync("\(folder)/\(Self.folderName)/\(shelf)") }
        }
        let digest = try list.finish()
        let record = FileRecord(name: Self.listName, bytes: list.bytes, sha256: digest)
        return Manifest.Blobs(list: record, count: count, bytes: total, damaged: damaged)
    }

    /// Visits the blobs in one database's folder of a store, shelf by shelf.
    static func forEach(
        in folder: String, _ body: (_ path: String, _ id: String) throws(BackupError) -> Void
    ) throws(BackupError) {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue
        else { return }
        for shelf in try Folder.names(folder) where shelf.utf8.count == shelfCharacters {
            for name in try Folder.names("\(folder)/\(shelf)") where name.utf8.count == idCharacters {
                try body("\(shelf)/\(name)", name)
            }
        }
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
        of blobs: Manifest.Blobs, in folder: String, _ body: (Line) throws -> Void
    ) throws {
        let file = try InputFile("\(folder)/\(blobs.list.name)")
        var rest: [UInt8] = []
        while let part = try file.read() {
            rest += part
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let words = String(decoding: rest[..<end], as: UTF8.self).split(separator: " ")
                guard words.count == 3, let bytes = Int64(words[2]), !words[0].contains("/"),
                    words[1].utf8.count == idCharacters, !words[1].contains("/")
                else { throw BackupError.damaged(file.path, "is altered") }
                try body(Line(database: String(words[0]), id: String(words[1]), bytes: bytes))
                rest.removeSubrange(...end)
            }
        }
        guard rest.isEmpty, file.digestText == blobs.list.sha256 else {
            throw BackupError.damaged(file.path, "is altered")
        }
    }
}
