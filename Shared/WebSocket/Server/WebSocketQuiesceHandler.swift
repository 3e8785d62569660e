import NIOCore
import NIOWebSocket

/// Says goodbye on a WebSocket when the server stops, unless that is said already, and does not wait for the
/// answer for long. Behind a goodbye, whoever said it, no frame leaves (RFC 6455 section 5.5.1).
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

/// The close frame of a server that stops.
private enum WebSocketGoodbye {
    /// 1001, going away.
    static var goingAway: WebSocketFrame {
        var data = ByteBuffer()
        data.write(webSocketErrorCode: .goingAway)
        data.writeString("going away")
        return WebSocketFrame(fin: true, opcode: .connectionClose, data: data)
    }
}
