import NIOCore
import NIOEmbedded
import NIOWebSocket
import Synchronization
import Testing

@testable import WebSocket

private final class Arrivals: Sendable {
    let messages = Mutex<[[UInt8]]>([])
}

/// A connection in virtual time, and the bytes of its peer.
private final class Line {
    static let interval = TimeAmount.seconds(30)
    static let ping: [UInt8] = [0x89, 0]
    /// A masked pong without data; its mask is zero, like those of all frames here.
    static let pong: [UInt8] = [0x8A, 0x80, 0, 0, 0, 0]

    let channel: EmbeddedChannel
    let connection: WebSocketConnection
    private let arrived = Arrivals()

    init() throws {
        channel = EmbeddedChannel(
            handlers: [
                WebSocketFrameEncoder(), ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 1_024)),
            ])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        var configuration = WebSocketConfiguration()
        configuration.keepAliveInterval = .nanoseconds(Self.interval.nanoseconds)
        connection = try WebSocketConnection.openNow(
            over: channel, role: .server, configuration: configuration)
        connection.handOver { [arrived] arrival in
            guard case .message(let message, let taken) = arrival else { return }
            arrived.messages.withLock { $0.append(message) }
            taken()
        }
    }

    /// The messages that have arrived.
    var messages: [[UInt8]] { arrived.messages.withLock { $0 } }

    /// The peer sends these bytes.
    func hear(_ bytes: [UInt8]) throws { try channel.writeInbound(ByteBuffer(bytes: bytes)) }

    /// Lets time pass, and returns the bytes that were sent in it.
    func sent(in time: TimeAmount) throws -> [UInt8] {
        channel.embeddedEventLoop.advanceTime(by: time)
        var sent: [UInt8] = []
        while let part = try channel.readOutbound(as: ByteBuffer.self) { sent += part.readableBytesView }
        return sent
    }
}

@Suite("Keeping a WebSocket alive")
struct KeepAliveTests {
    @Test("a peer that falls silent is pinged, and given up after the intervals it has")
    func silent() throws {
        let line = try Line()
        #expect(try line.sent(in: Line.interval - .nanoseconds(1)) == [])
        #expect(try line.sent(in: .nanoseconds(1)) == Line.ping)
        #expect(try line.sent(in: Line.interval) == Line.ping)
        #expect(line.channel.isActive)
        let reason = Array("WS-0202: pings were not answered".utf8)
        #expect(
            try line.sent(in: Line.interval) == [0x88, UInt8(2 + reason.count), 0x03, 0xEA] + reason)
        #expect(!line.channel.isActive)
        #expect(line.connection.isLost)
    }

    @Test("a peer whose frame takes longer than anybody may be silent is not silent")
    func slow() throws {
        let line = try Line()
        let payload = [UInt8](0..<30)
        // A byte in each interval, and no answer to any ping.
        for byte in [0x82, 0x80 | UInt8(payload.count), 0, 0, 0, 0] + payload {
            try line.hear([byte])
            #expect(try line.sent(in: Line.interval) == Line.ping)
        }
        #expect(line.messages == [payload])
        #expect(line.channel.isActive)
        _ = try? line.channel.finish(acceptAlreadyClosed: true)
    }

    @Test("a peer that answers pings is kept")
    func alive() throws {
        let line = try Line()
        for _ in 0..<10 {
            #expect(try line.sent(in: Line.interval) == Line.ping)
            try line.hear(Line.pong)
        }
        try line.hear([0x82, 0x81, 0, 0, 0, 0, 5])
        #expect(line.messages == [[5]])
        #expect(line.channel.isActive)
        _ = try? line.channel.finish(acceptAlreadyClosed: true)
    }
}
