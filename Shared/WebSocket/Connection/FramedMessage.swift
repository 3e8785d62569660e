import NIOCore
import NIOPosix

/// A message as a server sends it, with its frame header. A message to a hundred sessions is framed once on
/// each event loop, and every socket sends the same bytes. (A client masks each frame, so it cannot share.)
///
/// Each event loop's thread keeps the last framed message, if it is small. Messages are compared by their
/// address: a kept message keeps its memory, so no other can have the same.
struct FramedMessage {
    private final class Kept: Sendable {
        let message: [UInt8]
        let bytes: ByteBuffer

        init(_ message: [UInt8], _ bytes: ByteBuffer) {
            self.message = message
            self.bytes = bytes
        }
    }

    private static let last = ThreadSpecificVariable<Kept>()

    /// The bytes of one unmasked binary frame. Must be called on an event loop's thread.
    static func bytes(of message: [UInt8], _ allocator: ByteBufferAllocator) -> ByteBuffer {
        if let last = last.currentValue, isSame(last.message, message) { return last.bytes }
        var bytes = allocator.buffer(capacity: message.count + 10)
        bytes.writeInteger(UInt8(0x82))
        switch message.count {
        case ...125: bytes.writeInteger(UInt8(message.count))
        case ...0xFFFF: bytes.writeMultipleIntegers(UInt8(126), UInt16(message.count))
        default: bytes.writeMultipleIntegers(UInt8(127), UInt64(message.count))
        }
        bytes.writeBytes(message)
        if message.count <= Limits.keptMessageBytes { last.currentValue = Kept(message, bytes) }
        return bytes
    }

    private static func isSame(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.withUnsafeBufferPointer { one in
            other.withUnsafeBufferPointer { $0.baseAddress == one.baseAddress && $0.count == one.count }
        }
    }
}
