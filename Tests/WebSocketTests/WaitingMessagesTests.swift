import NIOCore
import NIOEmbedded
import NIOWebSocket
import Synchronization
import Testing

@testable import WebSocket

@Suite("Messages that wait to be taken")
struct WaitingMessagesTests {
    @Test("however many are taken, one at once after the other, they come in order and need no stack")
    func many() throws {
        let count: UInt32 = 100_000
        let channel = EmbeddedChannel(
            handlers: [
                WebSocketFrameEncoder(), ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: 1_024)),
            ])
        let connection = try WebSocketConnection.openNow(
            over: channel, role: .server, configuration: WebSocketConfiguration())
        let held = Mutex<(@Sendable () -> Void)?>(nil)
        let taken = Mutex<[[UInt8]]>([])
        connection.handOver { arrival in
            guard case .message(let message, let take) = arrival else { return }
            let isFirst = taken.withLock { taken in
                taken.append(message)
                return taken.count == 1
            }
            if isFirst { held.withLock { $0 = take } } else { take() }
        }
        let messages = (0..<count).map { number in
            (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
        }
        for message in messages { connection.arrived(message) }
        #expect(taken.withLock(\.count) == 1)
        let take = held.withLock { $0 }
        take?()
        #expect(taken.withLock { $0 == messages })
        _ = try? channel.finish(acceptAlreadyClosed: true)
    }
}
