import Foundation
import Synchronization

/// A folder of blobs, each named after the SHA-256 of its bytes.
///
/// Layout: `<folder>/<first two characters of the id>/<id>`, and `<folder>/incoming/<number>` for blobs that
/// are arriving. Invariants: a file under its id is complete and durable (written, fsynced, renamed, folder
/// fsynced), and never changes. Files in `incoming` at the time of opening are left over from a crash and
/// are removed. One store has a folder at a time. Memory per transfer is one chunk. Names in `incoming` are
/// never reused, by any store or process, so writes in flight of a closed store cannot collide with those of
/// a new one.
public final class BlobStore: Sendable {
    private let folder: String
    private let maximumBytes: Int64
    /// Shared by all stores of this process.
    private static let counter = Atomic<UInt64>(0)

    /// Opens a store; creates the folder if it does not exist.
    /// - Parameters:
    ///   - folder: created with mode 0700.
    ///   - maximumBytes: the size of the largest accepted blob.
    /// - Throws: `BLOB-0201`.
    public init(folder: String, maximumBytes: Int64 = Limits.blobBytes) throws(AttachmentError) {
        self.folder = folder
        self.maximumBytes = maximumBytes
        try Self.makeFolder(folder)
        try Self.makeFolder("\(folder)/incoming")
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: "\(folder)/incoming") {
                File.remove("\(folder)/incoming/\(name)")
            }
        } catch {
            throw AttachmentError(.storageFailed, "the folder \(folder)/incoming cannot be read")
        }
    }

    /// Starts to receive a blob whose id is not known yet.
    /// - Throws: `BLOB-0201`.
    public func writer() throws(AttachmentError) -> BlobWriter {
        let number = Self.counter.add(1, ordering: .relaxed).newValue
        return try BlobWriter(
            store: self, path: "\(folder)/incoming/\(ProcessInfo.processInfo.processIdentifier)-\(number)",
            maximumBytes: maximumBytes)
    }

    /// The id and length of a stored blob; nil when it is not stored.
    public func info(_ id: BlobID) throws(AttachmentError) -> BlobInfo? {
        guard File.exists(path(id)) else { return nil }
        return try BlobInfo(id: id, length: File(path: path(id), flags: O_RDONLY).length)
    }

    /// Opens a blob for reading.
    /// - Throws: `BLOB-0102` when it is not stored, `BLOB-0201`.
    public func reader(_ id: BlobID) throws(AttachmentError) -> BlobReader {
        guard File.exists(path(id)) else {
            throw AttachmentError.unknown
        }
        return try BlobReader(id: id, path: path(id))
    }

    /// Reads a whole blob and compares its digest with its name.
    /// - Throws: `BLOB-0202` when they differ, `BLOB-0102`, `BLOB-0201`.
    public func verify(_ id: BlobID) throws(AttachmentError) {
        let reader = try reader(id)
        var digest = BlobDigest()
        var offset: Int64 = 0
        while offset < reader.length {
            let chunk = try reader.read(at: offset)
            guard !chunk.isEmpty else { break }
            digest.update(chunk)
            offset += Int64(chunk.count)
        }
        guard digest.id == id else {
            throw AttachmentError(.corrupt, "the file of attachment \(id) no longer has its digest")
        }
    }

    /// Removes a blob; nothing happens when it is not stored. A reader that has it open goes on.
    public func remove(_ id: BlobID) throws(AttachmentError) {
        guard File.exists(path(id)) else { return }
        File.remove(path(id))
        try File.syncFolder("\(folder)/\(id.text.prefix(2))")
    }

    /// Moves a complete file to its id. Keeps the old file when the blob is stored already.
    func adopt(_ path: String, as id: BlobID) throws(AttachmentError) {
        let target = self.path(id)
        if File.exists(target) {
            File.remove(path)
            return
        }
        let shelf = "\(folder)/\(id.text.prefix(2))"
        if !File.exists(shelf) {
            try Self.makeFolder(shelf)
            try File.syncFolder(folder)
        }
        try File.rename(path, to: target)
        try File.syncFolder(shelf)
    }

    private func path(_ id: BlobID) -> String { "\(folder)/\(id.text.prefix(2))/\(id.text)" }

    private static func makeFolder(_ path: String) throws(AttachmentError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw AttachmentError(.storageFailed, "the folder \(path) cannot be created")
        }
    }
}
