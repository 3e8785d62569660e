import NIOCore
import NIOEmbedded
import NIOWebSocket
import Testing

@testable import WebSocket

@Suite("A burst of tiny frames")
struct FrameRestTests {
    /// Counts the reads that reach the socket.
    private final class Reads: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var count = 0

        func read(context: ChannelHandlerContext) {
            count += 1
            context.read()
        }
    }

    private func open(on loop: EmbeddedEventLoop) throws -> (EmbeddedChannel, Reads, WebSocketConnection) {
        let reads = Reads()
        let channel = EmbeddedChannel(
            handlers: [
                reads, WebSocketFrameEncoder(),
                ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 1_024)),
            ], loop: loop)
        let connection = try WebSocketConnection.openNow(
            over: channel, role: .server, configuration: WebSocketConfiguration())
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return (channel, reads, connection)
    }

    /// So many empty pings of a client.
    private func pings(_ count: Int) -> ByteBuffer {
        ByteBuffer(bytes: Array(repeating: [0x89, 0x80, 1, 2, 3, 4], count: count).flatMap { $0 })
    }

    /// The reads of the socket that follow when somebody asks for one.
    private func asked(_ channel: EmbeddedChannel, _ reads: Reads) -> Int {
        reads.count = 0
        channel.read()
        return reads.count
    }

    @Test("its connection is not read for a moment, and a few frames cost none")
    func rest() throws {
        let loop = EmbeddedEventLoop()
        let (channel, reads, connection) = try open(on: loop)
        try channel.writeInbound(pings(Limits.burstFrames - 1))
        #expect(asked(channel, reads) == 1)
        try channel.writeInbound(pings(1_000))
        #expect(asked(channel, reads) == 0)
        // Twenty microseconds for each.
        loop.advanceTime(by: .milliseconds(19))
        #expect(asked(channel, reads) == 0)
        reads.count = 0
        loop.advanceTime(by: .milliseconds(2))
        #expect(reads.count == 1)
        #expect(asked(channel, reads) == 1)
        #expect(channel.isActive && connection.farewell == nil)
        _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    @Test("two at a time rest twice as long, and one that has ended rests no more")
    func shared() throws {
        let loop = EmbeddedEventLoop()
        let (one, _, _) = try open(on: loop)
        let (other, reads, _) = try open(on: loop)
        try one.writeInbound(pings(1_000))
        try other.writeInbound(pings(1_000))
        loop.advanceTime(by: .milliseconds(39))
        #expect(asked(other, reads) == 0)
        loop.advanceTime(by: .milliseconds(2))
        #expect(asked(other, reads) == 1)
        try one.writeInbound(pings(1_000))
        _ = try? one.finish(acceptAlreadyClosed: true)
        try other.writeInbound(pings(1_000))
        loop.advanceTime(by: .milliseconds(21))
        #expect(asked(other, reads) == 1)
        _ = try? other.finish(acceptAlreadyClosed: true)
    }

    @Test("however long it rests among many, it does not count as silent")
    func long() throws {
        let loop = EmbeddedEventLoop()
        let (channel, _, connection) = try open(on: loop)
        let others = (1...8_000).map { _ in FrameRest(after: 1_000_000, on: loop) {} }
        // 160 seconds: more than a silent peer has.
        try channel.writeInbound(pings(1_000))
        loop.advanceTime(by: .seconds(150))
        #expect(channel.isActive && connection.farewell == nil)
        for other in others { other.end() }
        _ = try? channel.finish(acceptAlreadyClosed: true)
    }
}
