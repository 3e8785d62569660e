import NIOCore
import NIOWebSocket
import Synchronization

/// Stands right behind the frame decoder and keeps the connection alive on the event loop, whatever the task
/// that reads messages is doing: answers pings, sends pings, and closes when the peer has been silent for
/// too long.
///
/// Pings and pongs end here, as far as they are well-formed; everything else is passed on. All state but the
/// counter belongs to the event loop. A peer is not called silent while frames of its wait unread: then it
/// is our reader that lags, and the channel may have stopped reading for its sake.
final class WebSocketControlHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let masks: Bool
    private let interval: TimeAmount
    private let missedBeforeDead: Int
    private let unread: UnreadFrames
    private var missed = 0
    private var timer: RepeatedTask?

    init(role: WebSocketConnection.Role, configuration: WebSocketConfiguration, unread: UnreadFrames) {
        masks = role == .client
        interval = TimeAmount(configuration.keepAliveInterval)
        missedBeforeDead = configuration.missedBeforeDead
        self.unread = unread
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
            let (handler, context) = bound.value
            handler.tick(context)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        missed = 0
        let frame = unwrapInboundIn(data)
        let isSound = frame.fin && frame.reservedBits.isEmpty && (frame.maskKey != nil) == !masks
        switch frame.opcode {
        case .ping where isSound:
            send(WebSocketFrame(fin: true, opcode: .pong, maskKey: mask, data: frame.unmaskedData), context)
        case .pong where isSound:
            break
        default:
            unread.add()
            context.fireChannelRead(data)
        }
    }

    private func tick(_ context: ChannelHandlerContext) {
        guard context.channel.isActive else { return }
        if unread.isEmpty { missed += 1 } else { missed = 0 }
        if missed > missedBeforeDead {
            context.close(promise: nil)
        } else {
            send(WebSocketFrame(fin: true, opcode: .ping, maskKey: mask, data: ByteBuffer()), context)
        }
    }

    private var mask: WebSocketMaskingKey? { masks ? .random() : nil }

    private func send(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    }
}

/// Frames that have arrived and that the reading task has not taken yet.
final class UnreadFrames: Sendable {
    private let count = Atomic<Int>(0)

    func add() { count.add(1, ordering: .relaxed) }

    func remove() { count.subtract(1, ordering: .relaxed) }

    /// Frames may be taken that arrived before the handler counted, so the number can fall below zero.
    var isEmpty: Bool { count.load(ordering: .relaxed) <= 0 }
}
