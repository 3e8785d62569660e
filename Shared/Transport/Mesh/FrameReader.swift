import Exchange
import NIOCore
import Sync

/// Frames in the bytes of a link: a big-endian length of 32 bits and as many bytes. A frame without bytes is
/// a sign of life. A frame of which the end is missing, because its link was cut, is none.
///
/// Bounds: `Limits.linkFrameBytes`.
struct FrameReader {
    /// Bytes of a frame that is not complete.
    private var pending = ByteBuffer()

    /// A frame as bytes.
    static func bytes(of frame: [UInt8], _ allocator: ByteBufferAllocator) -> ByteBuffer {
        var bytes = allocator.buffer(capacity: frame.count + 4)
        bytes.writeInteger(UInt32(frame.count))
        bytes.writeBytes(frame)
        return bytes
    }

    /// Takes bytes as they came, and hands over the frames that are complete.
    mutating func take(_ bytes: ByteBuffer, _ complete: ([UInt8]) -> Void) throws(SyncError) {
        var bytes = bytes
        pending.writeBuffer(&bytes)
        while let length = pending.getInteger(at: pending.readerIndex, as: UInt32.self) {
            guard length <= Limits.linkFrameBytes else {
                throw SyncError(
                    .frameTooLarge, "a frame of \(length) bytes exceeds \(Limits.linkFrameBytes)")
            }
            guard pending.readableBytes >= 4 + Int(length) else { break }
            pending.moveReaderIndex(forwardBy: 4)
            guard length > 0, let frame = pending.readBytes(length: Int(length)) else { continue }
            complete(frame)
        }
        if pending.readableBytes == 0 { pending = ByteBuffer() } else { pending.discardReadBytes() }
    }
}
