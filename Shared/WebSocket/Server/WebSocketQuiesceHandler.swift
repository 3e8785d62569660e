import NIOCore
import NIOWebSocket

/// Sends a close frame on a WebSocket when the server stops, unless one was sent already, and closes the
/// channel after `Limits.goodbyeTimeout` at the latest. After a close frame of any writer no frame is
/// sent (RFC 6455 section 5.5.1).
final class WebSocketQuiesceHandler: ChannelDuplexHandler {
    typealias InboundIn = Any
    typealias OutboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private var hasSaidGoodbye = false

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let frame = unwrapOutboundIn(data)
        guard !hasSaidGoodbye else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        hasSaidGoodbye = frame.opcode == .connectionClose
        context.write(wrapOutboundOut(frame), promise: promise)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
        let channel = context.channel
        if !hasSaidGoodbye {
            hasSaidGoodbye = true
            context.writeAndFlush(wrapOutboundOut(WebSocketGoodbye.goingAway), promise: nil)
        }
        context.eventLoop.scheduleTask(in: TimeAmount(Limits.goodbyeTimeout)) {
            channel.close(promise: nil)
        }
    }
}

/// The close frame that a stopping server sends.
private enum WebSocketGoodbye {
    /// 1001, going away.
    static var goingAway: WebSocketFrame {
        var data = ByteBuffer()
        data.write(webSocketErrorCode: .goingAway)
        data.writeString("going away")
        return WebSocketFrame(fin: true, opcode: .connectionClose, data: data)
    }
}
