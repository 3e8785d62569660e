import Foundation

/// An open blob. It stays readable while it is open, even if the store removes the blob meanwhile. Any
/// number of tasks may read, since every read names its offset. Blocks on the disk, one chunk at a time.
public final class BlobReader: Sendable {
    /// The blob's name.
    public let id: BlobID
    /// Its length in bytes.
    public let length: Int64
    /// The file's state when it was opened.
    let state: File.State
    private let file: File

    init(id: BlobID, path: String) throws(AttachmentError) {
        self.id = id
        file = try File(path: path, flags: O_RDONLY)
        state = try file.state
        length = state.length
    }

    /// Reads up to `count` bytes from `offset`; fewer only at the end.
    /// - Throws: `BLOB-0105` for an offset outside the blob, `BLOB-0201`.
    public func read(
        at offset: Int64, count: Int = Limits.readChunkBytes
    ) throws(AttachmentError) -> [UInt8] {
        guard count >= 0 else { throw outside(offset) }
        return try file.read(at: offset, count: try fitting(count, at: offset))
    }

    /// Reads into a buffer, as `read` does; without a copy of the bytes.
    /// - Returns: the bytes that were read.
    public func read(
        at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(AttachmentError) -> Int {
        let count = try fitting(buffer.count, at: offset)
        return try file.read(at: offset, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
    }

    private func fitting(_ count: Int, at offset: Int64) throws(AttachmentError) -> Int {
        guard offset >= 0, offset <= length else { throw outside(offset) }
        return Int(min(Int64(min(count, Limits.readChunkBytes)), length - offset))
    }

    private func outside(_ offset: Int64) -> AttachmentError {
        AttachmentError(.rangeInvalid, "the attachment has \(length) bytes; offset \(offset) is outside")
    }
}
