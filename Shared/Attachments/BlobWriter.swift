import Crypto
import Foundation

/// Receives the bytes of one blob, in order, and stores them when `finish` is called. Nothing is stored
/// before that, or if the writer is dropped. Used by one task. Blocks on the disk, one chunk at a time.
public final class BlobWriter {
    private let store: BlobStore
    /// The file with the bytes. It is removed with the writer, unless somebody has moved it.
    public let path: String
    private let maximumBytes: Int64
    private let file: File
    private var digest = BlobDigest()
    private var isFinished = false

    /// The number of bytes received so far.
    public private(set) var length: Int64 = 0

    /// - Returns: nil if another writer has the path, or the file was removed before it was locked.
    init?(store: BlobStore, path: String, maximumBytes: Int64) throws(AttachmentError) {
        let file = try File(path: path, flags: O_RDWR | O_CREAT)
        guard try file.lock(waits: false), try !file.isRemoved else { return nil }
        self.store = store
        self.path = path
        self.maximumBytes = maximumBytes
        self.file = file
        try self.file.cut(to: 0)
    }

    deinit {
        if !isFinished { File.remove(path) }
    }

    /// Appends a chunk.
    /// - Throws: `BLOB-0103` when the blob grows over the limit, `BLOB-0201`; then nothing is stored.
    public func write(_ chunk: some ContiguousBytes & Collection<UInt8>) throws(AttachmentError) {
        precondition(!isFinished, "a finished blob takes no more bytes")
        guard length + Int64(chunk.count) <= maximumBytes else {
            throw AttachmentError.tooLarge(maximumBytes)
        }
        digest.update(chunk)
        var failure: AttachmentError?
        chunk.withUnsafeBytes { bytes in
            do throws(AttachmentError) { try file.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
        length += Int64(chunk.count)
    }

    /// Stores the blob. It is durable when this returns.
    /// - Parameter expected: the id that the sender announced.
    /// - Throws: `BLOB-0104` when the bytes have another id, `BLOB-0201`; then nothing is stored.
    public func finish(expected: BlobID? = nil) throws(AttachmentError) -> BlobInfo {
        let info = try seal(expected: expected)
        try store.adopt(path, as: info.id)
        isFinished = true
        return info
    }

    /// Ends the blob without storing it: its bytes are durable at `path`, for whoever stores them elsewhere.
    /// - Throws: `BLOB-0104` when the bytes have another id, `BLOB-0201`.
    public func seal(expected: BlobID? = nil) throws(AttachmentError) -> BlobInfo {
        precondition(!isFinished, "a blob is finished once")
        let id = digest.id
        guard expected == nil || expected == id else {
            throw AttachmentError(.digestMismatch, "the bytes do not match the announced id")
        }
        try file.sync()
        return BlobInfo(id: id, length: length)
    }
}

/// SHA-256 over chunks: the id of the bytes so far.
public struct BlobDigest: Sendable {
    private var hash = SHA256()

    /// A digest of no bytes.
    public init() {}

    /// Takes the next bytes.
    public mutating func update(_ chunk: some ContiguousBytes) {
        chunk.withUnsafeBytes { hash.update(bufferPointer: $0) }
    }

    var bytes: [UInt8] { Array(hash.finalize()) }

    /// The id of a blob of these bytes.
    public var id: BlobID { BlobID(digest: bytes) }
}
