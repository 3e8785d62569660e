import Foundation

/// The part of a blob that has been received, in `<folder>/downloads`: bytes in `<id>-<length>`, the hashes
/// of its chunks beside it. It outlives the process: the next opening compares its chunks and goes on at the
/// byte.
///
/// Invariant: all bytes before the last whole chunk have its hash, where the hashes are known. Used by one
/// task at a time, in one process at a time. Blocks on the disk.
public final class DownloadFile {
    private let store: BlobStore
    private let id: BlobID
    private let length: Int64
    private let path: String
    private let file: File
    /// The hash of all bytes, and of those of the chunk that is arriving.
    private var whole = BlobDigest()
    private var part = BlobDigest()
    /// The beginning of the chunk that is arriving, and the hash of all before it.
    private var boundary: (offset: Int64, whole: BlobDigest) = (0, BlobDigest())

    /// The hashes, once they are known.
    public private(set) var chunks: ChunkList?
    /// The bytes that are here.
    public private(set) var received: Int64 = 0

    /// The result of appending.
    public enum Appended: Sendable, Equatable {
        /// As far as can be told, the bytes are right.
        case fine
        /// A chunk was wrong, and was dropped.
        case wrongChunk
    }

    /// Opens what there is of a blob, or begins. Reads what is there.
    /// - Throws: `BLOB-0107` while another one has it open, `BLOB-0201`.
    public init(_ store: BlobStore, _ id: BlobID, length: Int64) throws(AttachmentError) {
        (self.store, self.id, self.length) = (store, id, length)
        let folder = "\(store.folder)/downloads"
        try BlobStore.makeFolder(folder)
        path = "\(folder)/\(id.text)-\(length)"
        let file = try File(path: path, flags: O_RDWR | O_CREAT)
        guard try file.lock(waits: false), try !file.isRemoved else { throw .busyUpload }
        self.file = file
        if let data = FileManager.default.contents(atPath: path + ".chunks") {
            chunks = ChunkList(stored: [UInt8](data), length: length)
        }
        let there = min(try self.file.state.length, length)
        while received < there {
            let bytes = try self.file.read(
                at: received, count: Int(min(Int64(Limits.readChunkBytes), there - received)))
            // A chunk is compared at its end, so the part of it that is there counts for nothing.
            guard !bytes.isEmpty, take(bytes) == .fine else { break }
        }
        try self.file.cut(to: received)
    }

    /// Sets the hashes; chunks that are here already and differ are dropped.
    /// - Throws: `BLOB-0201`.
    public func setChunks(_ list: ChunkList?) throws(AttachmentError) {
        guard list != chunks else { return }
        chunks = list
        if let list {
            let file = try File(path: path + ".chunks", flags: O_WRONLY | O_CREAT | O_TRUNC)
            try file.write(list.bytes, at: 0)
        } else {
            File.remove(path + ".chunks")
        }
        let there = received
        (received, whole, part, boundary) = (0, BlobDigest(), BlobDigest(), (0, BlobDigest()))
        while received < there {
            let bytes = try file.read(
                at: received, count: Int(min(Int64(Limits.readChunkBytes), there - received)))
            guard !bytes.isEmpty, take(bytes) == .fine else { break }
        }
        try file.cut(to: received)
    }

    /// Appends bytes.
    /// - Throws: `BLOB-0201`, `BLOB-0203`; then only the bytes before are there.
    public func append(_ bytes: [UInt8]) throws(AttachmentError) -> Appended {
        precondition(received + Int64(bytes.count) <= length, "no more bytes than the blob has")
        let before = received
        var failure: AttachmentError?
        bytes.withUnsafeBytes { buffer in
            do throws(AttachmentError) { try file.write(buffer) } catch { failure = error }
        }
        if let failure {
            try? file.cut(to: before)
            throw failure
        }
        guard take(bytes) == .wrongChunk else { return .fine }
        try file.cut(to: received)
        return .wrongChunk
    }

    /// Counts and hashes bytes that are in the file. A wrong chunk and all after it do not count.
    private func take(_ bytes: [UInt8]) -> Appended {
        var rest = bytes[...]
        while !rest.isEmpty {
            let end = min(boundary.offset + ChunkList.chunkBytes, length)
            let piece = Array(rest.prefix(Int(end - received)))
            whole.update(piece)
            part.update(piece)
            received += Int64(piece.count)
            rest = rest.dropFirst(piece.count)
            guard received == end else { continue }
            let index = Int(boundary.offset / ChunkList.chunkBytes)
            if let chunks, chunks.digests[index] != part.bytes {
                (received, whole, part) = (boundary.offset, boundary.whole, BlobDigest())
                return .wrongChunk
            }
            (boundary, part) = ((received, whole), BlobDigest())
        }
        return .fine
    }

    /// Compares all bytes with the id, and stores the blob durably. Wrong ones are dropped.
    /// - Returns: false if they are wrong.
    /// - Throws: `BLOB-0201`, `BLOB-0203`.
    public func finish() throws(AttachmentError) -> Bool {
        precondition(received == length, "a blob is compared when all of it is here")
        guard whole.id == id else {
            chunks = nil
            File.remove(path + ".chunks")
            (received, whole, part, boundary) = (0, BlobDigest(), BlobDigest(), (0, BlobDigest()))
            try file.cut(to: 0)
            return false
        }
        try file.sync()
        try store.adopt(path, as: id)
        File.remove(path + ".chunks")
        return true
    }

    /// Removes the part: nobody wants the blob any more. Nothing else may be called afterwards.
    public func discard() {
        File.remove(path)
        File.remove(path + ".chunks")
    }
}

extension BlobStore {
    /// Removes parts of downloads with which nothing has happened since.
    public func removeDownloads(untouchedSince seconds: Int64) throws(AttachmentError) {
        let folder = "\(folder)/downloads"
        guard File.exists(folder) else { return }
        for name in try Self.names(in: folder) where !name.hasSuffix(".chunks") {
            guard let state = File.state(of: "\(folder)/\(name)"), state.writtenAtSeconds <= seconds,
                let file = try? File(path: "\(folder)/\(name)", flags: O_RDWR),
                (try? file.lock(waits: false)) == true
            else { continue }
            File.remove("\(folder)/\(name)")
            File.remove("\(folder)/\(name).chunks")
        }
    }
}
