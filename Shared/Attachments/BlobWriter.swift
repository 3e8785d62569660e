import Crypto
import Foundation

/// Takes the bytes of one blob, in order, and stores them when `finish` is called; until then, and when the
/// writer is dropped, nothing is stored. One task uses it. Blocks for the disk, a chunk at a time.
public final class BlobWriter {
    private let store: BlobStore
    private let path: String
    private let maximumBytes: Int64
    private let file: File
    private var digest = BlobDigest()
    private var isFinished = false

    /// Bytes taken so far.
    public private(set) var length: Int64 = 0

    init(store: BlobStore, path: String, maximumBytes: Int64) throws(AttachmentError) {
        self.store = store
        self.path = path
        self.maximumBytes = maximumBytes
        file = try File(path: path, flags: O_WRONLY | O_CREAT | O_TRUNC)
    }

    deinit {
        if !isFinished { File.remove(path) }
    }

    /// Takes a chunk.
    /// - Throws: `BLOB-0103` when the blob grows over the limit, `BLOB-0201`; nothing is stored then.
    public func write(_ chunk: some ContiguousBytes & Collection<UInt8>) throws(AttachmentError) {
        precondition(!isFinished, "a finished blob takes no more bytes")
        guard length + Int64(chunk.count) <= maximumBytes else {
            throw AttachmentError(.tooLarge, "an attachment may have \(maximumBytes) bytes")
        }
        digest.update(chunk)
        var failure: AttachmentError?
        chunk.withUnsafeBytes { bytes in
            do throws(AttachmentError) { try file.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
        length += Int64(chunk.count)
    }

    /// Stores the blob: durable when this returns.
    /// - Parameter expected: what the sender says the bytes are.
    /// - Throws: `BLOB-0104` when they are something else, `BLOB-0201`; nothing is stored then.
    public func finish(expected: BlobID? = nil) throws(AttachmentError) -> BlobInfo {
        precondition(!isFinished, "a blob is finished once")
        let id = digest.id
        guard expected == nil || expected == id else {
            throw AttachmentError(.digestMismatch, "the bytes are not those that were announced")
        }
        try file.sync()
        try store.adopt(path, as: id)
        isFinished = true
        return BlobInfo(id: id, length: length)
    }
}

/// SHA-256 over chunks.
struct BlobDigest {
    private var hash = SHA256()

    mutating func update(_ chunk: some ContiguousBytes) {
        chunk.withUnsafeBytes { hash.update(bufferPointer: $0) }
    }

    var id: BlobID { BlobID(digest: Array(hash.finalize())) }
}
