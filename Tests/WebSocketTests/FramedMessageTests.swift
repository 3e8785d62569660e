import NIOCore
import Testing

@testable import WebSocket

@Suite("A server's frame")
struct FramedMessageTests {
    private func framed(_ message: [UInt8]) -> [UInt8] {
        Array(FramedMessage.bytes(of: message, ByteBufferAllocator()).readableBytesView)
    }

    @Test(
        "has its length in the fewest bytes (RFC 6455 section 5.2)",
        arguments: [
            (0, [0x82, 0]), (125, [0x82, 125]), (126, [0x82, 126, 0, 126]), (65_535, [0x82, 126, 255, 255]),
            (65_536, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])])
    func lengths(_ expected: (count: Int, head: [UInt8])) {
        let message = (0..<expected.count).map { UInt8(truncatingIfNeeded: $0) }
        #expect(framed(message) == expected.head + message)
    }

    @Test("is put together once for a message that many are sent, and is never another message's")
    func shared() {
        let message = [UInt8](repeating: 7, count: 300)
        let first = FramedMessage.bytes(of: message, ByteBufferAllocator())
        let second = FramedMessage.bytes(of: message, ByteBufferAllocator())
        let places = [first, second].map { buffer in buffer.withUnsafeReadableBytes { $0.baseAddress } }
        #expect(places[0] == places[1])
        var changed = message
        changed[0] = 8
        #expect(framed(changed).dropFirst(4) == changed[...])
        #expect(framed(message).dropFirst(4) == message[...])
        for number in 0..<100 {
            #expect(framed([UInt8](repeating: UInt8(number), count: 300)).last == UInt8(number))
        }
    }
}
