import NIOCore
import NIOWebSocket

/// The protocol of a WebSocket, next after the frame decoder in the pipeline: assembles messages, queues them
/// for the reader, answers pings, sends pings, and closes when the peer has been silent for too long.
///
/// All of this happens on the event loop, whatever the reader does. The socket is not read while too much
/// waits for the reader, nor for a moment after a burst of tiny frames (`FrameRest`): the event loop serves
/// others too. A peer does not count as silent while its messages wait or it rests: then we do not listen.
/// The event loop guards all state but `connection`'s.
final class WebSocketHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let connection: WebSocketConnection
    private let masks: Bool
    private let interval: TimeAmount
    private let missedBeforeDead: Int
    /// Knows whether bytes came, also of an unfinished frame.
    private let bytes: FrameLengthCheck
    private var assembler: MessageAssembler
    /// Ping intervals without any bytes from the peer.
    private var missed = 0
    /// True if frames are ignored: the peer has closed, or broken the protocol.
    private var isOver = false
    /// The latest ping that could not be answered yet, because the peer does not read. Earlier ones get no
    /// answer (RFC 6455 section 5.5.3), or answers would pile up.
    private var unanswered: ByteBuffer?
    private var timer: RepeatedTask?
    /// Frames in this turn of the event loop.
    private var frames = 0
    private var rest: FrameRest?

    init(
        _ connection: WebSocketConnection, _ configuration: WebSocketConfiguration,
        behind bytes: FrameLengthCheck
    ) {
        self.connection = connection
        self.bytes = bytes
        masks = connection.role == .client
        interval = TimeAmount(configuration.keepAliveInterval)
        missedBeforeDead = configuration.missedBeforeDead
        assembler = MessageAssembler(maximumBytes: configuration.maximumMessageBytes)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
            let (handler, context) = bound.value
            handler.tick(context)
        }
    }

    /// Ends the connection here too: if the channel became inactive before this handler was added, its
    /// removal is the only event.
    func handlerRemoved(context: ChannelHandlerContext) {
        stop()
        connection.gone()
    }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        connection.gone()
        context.fireChannelInactive()
    }

    private func stop() {
        timer?.cancel()
        timer = nil
        rest?.end()
        rest = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // The peer sends nothing any more; our own frames may still leave.
        if event as? ChannelEvent == .inputClosed {
            connection.gone()
            connection.answered()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOWebSocketError.invalidFrameLength:
            fail(WebSocketError(.messageTooLarge, "a frame is larger than the limit"))
        case is NIOWebSocketError:
            fail(WebSocketError(.protocolViolation, "the peer's frames are malformed"))
        case let error as WebSocketError: fail(error)
        default: context.close(promise: nil)
        }
    }

    // MARK: Reading

    func read(context: ChannelHandlerContext) {
        if rest == nil, !connection.pausesReading() { context.read() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if frames >= Limits.burstFrames, rest == nil, timer != nil {
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            rest = FrameRest(after: frames, on: context.eventLoop) {
                let (handler, context) = bound.value
                handler.rest = nil
                handler.read(context: context)
            }
        }
        frames = 0
        context.fireChannelReadComplete()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        frames += 1
        guard !isOver else {
            if frame.opcode == .connectionClose { connection.answered() }
            return
        }
        do throws(WebSocketError) {
            try take(frame, context)
        } catch {
            fail(error)
        }
    }

    private func take(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) throws(WebSocketError) {
        guard frame.reservedBits.isEmpty, (frame.maskKey != nil) == !masks else {
            throw WebSocketError(.protocolViolation, "a frame has reserved bits or the wrong masking")
        }
        switch frame.opcode {
        case .binary, .continuation:
            if let message = try assembler.add(frame) { connection.arrived(message) }
        case .text:
            throw WebSocketError(.textMessage, "only binary messages are spoken here")
        case .connectionClose:
            guard frame.fin, let reason = frame.closeReason else {
                throw WebSocketError(.protocolViolation, "a malformed close frame")
            }
            isOver = true
            connection.heard(reason)
        case .ping where frame.fin:
            if context.channel.isWritable {
                pong(frame.unmaskedData, context)
            } else {
                unanswered = frame.unmaskedData
            }
        case .pong where frame.fin:
            break
        default:
            throw WebSocketError(.protocolViolation, "a frame of an unknown kind")
        }
    }

    private func fail(_ error: WebSocketError) {
        guard !isOver else { return }
        isOver = true
        connection.broken(error)
    }

    // MARK: Writing

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
        if bytes.takeHeard() || connection.isUnread || rest != nil { missed = 0 } else { missed += 1 }
        if missed > missedBeforeDead {
            connection.unanswered()
        } else if context.channel.isWritable {
            send(WebSocketFrame(fin: true, opcode: .ping, maskKey: mask, data: ByteBuffer()), context)
        }
    }

    private var mask: WebSocketMaskingKey? { masks ? .random() : nil }

    private func send(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    }
}
