import NIOCore
import NIOPosix

/// A message as a server sends it, frame header and all: what a hundred sessions are sent is put together
/// once on each event loop, and every socket takes the same bytes. (A client masks each frame anew.)
///
/// Each event loop's thread keeps the last one, if it is small. Messages are told apart by where they are,
/// and one that is kept stays there.
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

    /// The bytes of one unmasked binary frame. On an event loop's thread.
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
