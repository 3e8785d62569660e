import NIOCore
import NIOHTTP1

/// Works around two gaps of NIO's upgrade handler, which follows it in the pipeline: NIO's loses requests for
/// an unregistered protocol (`Upgrade: h2c`, which common clients send unasked), and it ignores shutdown.
///
/// Removes the `Upgrade` header from every request that is not a WebSocket upgrade to a registered path;
/// answers a first request that is not HTTP; closes a connection without any request when the server stops or
/// the connection stays silent. The event loop guards all state.
final class UpgradeFilter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private enum Phase { case silent, upgrading, plain }

    private let paths: Set<String>
    private let patience: TimeAmount
    private let onUpgrade: () -> Void
    private var phase = Phase.silent
    private var timer: Scheduled<Void>?

    /// - Parameter onUpgrade: called on the event loop when the connection's first request asks for an
    ///   upgrade.
    init(paths: Set<String>, patience: Duration, onUpgrade: @escaping () -> Void) {
        self.onUpgrade = onUpgrade
        self.paths = paths
        self.patience = TimeAmount(patience)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        timer = context.eventLoop.scheduleTask(in: patience) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        let isUpgrade = phase == .silent && asksForWebSocket(head)
        if phase == .silent {
            phase = isUpgrade ? .upgrading : .plain
            if isUpgrade { onUpgrade() } else { timer?.cancel() }
        }
        guard !isUpgrade, head.headers.contains(name: "upgrade") else { return context.fireChannelRead(data) }
        head.headers.remove(name: "upgrade")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // Hummingbird's handler closes a plain connection once its request is answered.
        if event is ChannelShouldQuiesceEvent, phase != .plain {
            context.close(promise: nil)
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Hummingbird answers errors of later requests, but not those before the first request.
        guard phase != .plain else { return context.fireErrorCaught(error) }
        let refusal = ServiceError(.badRequest, "the request is not valid HTTP/1.1")
        let body = ErrorAnswer.json(code: refusal.publicCode, message: refusal.publicMessage)
        let head = HTTPResponseHead(
            version: .http1_1, status: .badRequest,
            headers: [
                "Content-Type": "application/json", "Content-Length": "\(body.count)", "Connection": "close",
            ])
        let channel = context.channel
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }

    private func asksForWebSocket(_ head: HTTPRequestHead) -> Bool {
        let path = head.uri.prefix { $0 != "?" }
        // NIO compares each value whole, so a list of protocols is not accepted.
        let protocols = head.headers[canonicalForm: "upgrade"]
        return head.method == .GET && paths.contains(String(path)) && protocols.count == 1
            && protocols[0].lowercased() == "websocket"
    }
}

/// Sends a close frame on a WebSocket when the server stops, unless one was sent already, and closes the
/// channel after `Limits.webSocketGoodbye` at the latest. After a close frame, whoever wrote it, no frame is
/// sent (RFC 6455 section 5.5.1).
final class WebSocketQuiesceHandler: ChannelDuplexHandler {
    typealias InboundIn = Any
    typealias OutboundIn = WebSocketGoodbye.Frame
    typealias OutboundOut = WebSocketGoodbye.Frame

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
        context.eventLoop.scheduleTask(in: TimeAmount(Limits.webSocketGoodbye)) {
            channel.close(promise: nil)
        }
    }
}

/// Holds bytes that arrive on a WebSocket, before they are decoded, until the connection's owner has added
/// its own handlers to the pipeline and removes this one.
final class HeldBytesHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = Any
    typealias OutboundIn = Any

    /// The name by which Transport's `WebSocketConnection` finds this handler.
    static let name = "mimeo.held-bytes"

    private var held: [NIOAny] = []
    private var isInputClosed = false

    func read(context: ChannelHandlerContext) {}

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { held.append(data) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event as? ChannelEvent == .inputClosed else {
            return context.fireUserInboundEventTriggered(event)
        }
        isInputClosed = true
    }

    func removeHandler(context: ChannelHandlerContext, removalToken: ChannelHandlerContext.RemovalToken) {
        for bytes in held { context.fireChannelRead(bytes) }
        if !held.isEmpty { context.fireChannelReadComplete() }
        held = []
        // The event comes only once, so it must be passed on.
        if isInputClosed { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
        context.read()
        context.leavePipeline(removalToken: removalToken)
    }
}
