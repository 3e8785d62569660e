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
    /// The latest ping that could not be answered yet, because the other side does not read: only that one is
    /// (RFC 6455 section 5.5.3), or answers would pile up.
    private var unanswered: ByteBuffer?
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
            if context.channel.isWritable {
                pong(frame.unmaskedData, context)
            } else {
                unanswered = frame.unmaskedData
            }
        case .pong where isSound:
            break
        default:
            unread.add()
            context.fireChannelRead(data)
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, let data = unanswered {
            unanswered = nil
            pong(data, context)
        }
        context.fireChannelWritabilityChanged()
    }

    private func pong(_ data: ByteBuffer, _ context: ChannelHandlerContext) {
        send(WebSocketFrame(fin: true, opcode: .pong, maskKey: mask, data: data), context)
    }

    private func tick(_ context: ChannelHandlerContext) {
        guard context.channel.isActive else { return }
        if unread.isEmpty { missed += 1 } else { missed = 0 }
        if missed > missedBeforeDead {
            context.close(promise: nil)
        } else if context.channel.isWritable {
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
