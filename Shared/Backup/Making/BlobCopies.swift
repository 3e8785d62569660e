import Crypto
import Foundation
import Glibc

/// The blobs of a backup: `attachments/DATABASE/xx/ID`, the form of an attachment-store's folder.
///
/// A blob that the parent has is linked and takes no room; any other is copied and its digest compared with
/// its name. The store's own files are never linked: a disk that damages one would damage the copy.
/// Blobs for a bucket go there at once, and only those that it lacks.
struct BlobCopies {
    /// The place of the blobs.
    let source: any BlobOrigin
    /// The backup's folder.
    let folder: String
    /// The parent's folder.
    let parent: String?
    /// The bucket for the blobs; nil puts them into the folder.
    var bucket: (any BackupBucket)?
    let progress: BackupProgress

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
        for database in try await source.databases() {
            let shelves = try await source.shelves(of: database)
            for (index, shelf) in shelves.enumerated() {
                progress.tell("attachments of \(database)", UInt64(index), of: UInt64(shelves.count))
                let copies = try await copyShelf(database, shelf)
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

    /// Copies the blobs of one shelf durably.
    private func copyShelf(
        _ database: String, _ shelf: String
    ) async throws -> [(id: String, outcome: Outcome)] {
        let names = try await source.ids(on: shelf, of: database)
        guard !names.isEmpty else { return [] }
        let place = "\(database)/\(shelf)"
        var known: [String: Int64] = [:]
        var copies: [(id: String, outcome: Outcome)] = []
        let target = "\(folder)/\(Self.folderName)/\(place)"
        if let bucket {
            let prefix = "\(BackedBlobs.prefix)\(place)/"
            try await bucket.forEach(prefix) { known[String($0.key.dropFirst(prefix.count))] = $0.bytes }
        } else {
            try Folder.make(target)
        }
        for name in names {
            if let bytes = known[name] {
                copies.append((name, .copied(bytes)))
            } else if let bucket {
                copies.append((name, try await store(name, database, "\(place)/\(name)", in: bucket)))
            } else {
                copies.append((name, try await copy(name, database, "\(place)/\(name)")))
            }
            try Task.checkCancellation()
        }
        if bucket == nil { try Folder.sync(target) }
        return copies
    }

    /// Stores a blob that the bucket lacks, after comparing it with its name.
    private func store(
        _ id: String, _ database: String, _ path: String, in bucket: any BackupBucket
    ) async throws -> Outcome {
        // A blob without a path here is on its way through a file.
        let passing = "\(folder)/.blob"
        let file = source.path(of: id, database) ?? passing
        let outcome =
            file == passing
            ? try await copy(id, database, to: passing) : try await compare(id, database)
        if case .copied = outcome { try await bucket.store(file, as: BackedBlobs.prefix + path) }
        if Folder.exists(passing) { try Folder.remove(passing) }
        return outcome
    }

    private func compare(_ id: String, _ database: String) async throws -> Outcome {
        var (bytes, digest) = (Int64(0), FileDigest())
        let isThere = try await source.read(id, of: database) { part in
            bytes += Int64(part.count)
            digest.update(part)
        }
        guard isThere else { return .isGone }
        guard Self.id(digest.text) != id else { return .copied(bytes) }
        return try await source.holds(id, of: database) ? .isDamaged : .isGone
    }

    private enum Outcome {
        case copied(Int64)
        case isDamaged
        /// Erased meanwhile.
        case isGone
    }

    private func copy(_ id: String, _ database: String, _ path: String) async throws -> Outcome {
        let target = "\(folder)/\(Self.folderName)/\(path)"
        if let parent, link("\(parent)/\(Self.folderName)/\(path)", target) == 0 {
            return .copied(try Self.size(target))
        }
        return try await copy(id, database, to: target)
    }

    /// Copies a blob durably to a file; leaves none of a damaged one.
    private func copy(_ id: String, _ database: String, to target: String) async throws -> Outcome {
        let output = try OutputFile(target)
        let isThere = try await source.read(id, of: database) { try output.write($0) }
        guard isThere, Self.id(try output.finish()) == id else {
            try Folder.remove(target)
            guard isThere else { return .isGone }
            return try await source.holds(id, of: database) ? .isDamaged : .isGone
        }
        return .copied(output.bytes)
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
