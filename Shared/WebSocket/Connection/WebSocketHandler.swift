import NIOCore
import NIOWebSocket
import Synchronization

/// What has arrived on a WebSocket and waits to be taken, and how it stands: shared between the event loop,
/// which fills it, and whoever takes and closes.
struct WebSocketIncoming {
    /// Who takes messages.
    enum Taker {
        /// Nobody yet, or `receive` between two messages.
        case none
        case once(CheckedContinuation<[UInt8]?, any Error>)
        /// One at a time; `isBusy` until it has said that it took one.
        case line(@Sendable (WebSocketArrival) -> Void, isBusy: Bool)
        /// Nothing is taken any more.
        case discarding
    }

    /// How it has ended, for whoever takes: behind the messages that wait.
    enum End {
        case closed
        case failed(WebSocketError)
    }

    var messages = CircularBuffer<[UInt8]>.empty
    var bytes = 0
    /// Whether somebody is handing over what waits.
    var isHanding = false
    var taker = Taker.none
    var end: End?
    /// Whether `receive` is under way.
    var isReading = false
    var sentClose: WebSocketClose?
    var receivedClose: WebSocketClose?
    /// Our close frame on its way, whether it has left, and whether the other side has said its last word.
    var closing: EventLoopFuture<Void>?
    var isCloseWritten = false
    var isAnswered = false
    /// Whether the event loop does not read because of what waits.
    var isHeldBack = false

    /// Whether the socket is to be read no further until something was taken.
    var isFull: Bool {
        if case .discarding = taker { return false }
        return messages.count >= Limits.unreadMessages || bytes >= Limits.unreadBytes
    }
}

/// Stands right behind the frame decoder: puts messages together and holds them for whoever takes them,
/// answers pings, sends pings, and closes when the peer has been silent for too long.
///
/// All of that happens on the event loop, whatever those who take messages are doing. The socket is not read
/// while much waits to be taken. A peer is not called silent while messages of its wait: then it is our
/// reader that lags. All state but `connection`'s belongs to the event loop.
final class WebSocketHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let connection: WebSocketConnection
    private let masks: Bool
    private let interval: TimeAmount
    private let missedBeforeDead: Int
    /// Sees the bytes before they are frames.
    private let bytes: FrameLengthCheck
    private var assembler: MessageAssembler
    private var missed = 0
    /// Whether frames mean nothing any more: the peer has closed, or broken the rules.
    private var isOver = false
    /// The latest ping that could not be answered yet, because the other side does not read: only that one
    /// is (RFC 6455 section 5.5.3), or answers would pile up.
    private var unanswered: ByteBuffer?
    private var timer: RepeatedTask?

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

    /// The channel may have become inactive before this was added: its handlers go a moment later, and
    /// nothing else tells.
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
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // The other side says nothing any more; what is ours to say may still leave.
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

    func read(context: ChannelHandlerContext) { if !connection.holdsBack() { context.read() } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
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
        if bytes.takeHeard() || connection.isUnread { missed = 0 } else { missed += 1 }
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

extension CircularBuffer {
    /// Nothing, with room for next to nothing: each idle session has one, and by itself it has room for 16.
    static var empty: Self { Self(initialCapacity: 1) }
}
