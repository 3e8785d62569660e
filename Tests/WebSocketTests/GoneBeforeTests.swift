import NIOCore
import NIOEmbedded
import NIOWebSocket
import Synchronization
import Testing

@testable import WebSocket

@Suite("A connection that is opened over a channel that has just gone")
struct GoneBeforeTests {
    @Test("its end is told, though the channel became inactive before anybody could hear of it")
    func told() throws {
        let channel = EmbeddedChannel(
            handlers: [
                WebSocketFrameEncoder(), ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 1_024)),
            ])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        channel.close(promise: nil)
        #expect(!channel.isActive)
        let connection = try WebSocketConnection.openNow(
            over: channel, role: .server, configuration: WebSocketConfiguration())
        let isEnded = Mutex(false)
        connection.handOver { arrival in
            if case .ended = arrival { isEnded.withLock { $0 = true } }
        }
        channel.embeddedEventLoop.run()
        #expect(isEnded.withLock { $0 })
        #expect(connection.isLost)
    }
}
