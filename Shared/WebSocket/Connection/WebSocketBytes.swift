import NIOCore
import NIOWebSocket

/// A WebSocket as a stream of bytes, for handlers of bytes that follow in the pipeline, such as TLS: the
/// bytes of a binary message follow those of the one before, and what is written leaves as binary messages.
///
/// It answers pings and the close frame of the other side, and says goodbye before it closes. The handlers
/// behind it find out whether the other side still lives. The event loop guards its state.
public final class WebSocketBytes: ChannelDuplexHandler {
    /// See `ChannelInboundHandler`.
    public typealias InboundIn = WebSocketFrame
    /// See `ChannelInboundHandler`.
    public typealias InboundOut = ByteBuffer
    /// See `ChannelOutboundHandler`.
    public typealias OutboundIn = ByteBuffer
    /// See `ChannelOutboundHandler`.
    public typealias OutboundOut = WebSocketFrame

    private let masks: Bool
    private var isFragmented = false
    private var hasSaidGoodbye = false

    private init(_ role: WebSocketConnection.Role) { masks = role == .client }

    /// Takes over an upgraded channel, on its event loop; `configure` adds the handlers of bytes, before the
    /// first of them arrive.
    public static func openNow(
        over channel: any Channel, role: WebSocketConnection.Role,
        _ configure: (any Channel) throws -> Void = { _ in }
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let decoder = try pipeline.handler(type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
        try pipeline.addHandler(FrameLengthCheck(), position: .before(decoder))
        try pipeline.addHandler(WebSocketBytes(role))
        try configure(channel)
        if let pending = try? pipeline.context(handlerType: PendingBytesHandler.self) {
            pipeline.removeHandler(context: pending, promise: nil)
        }
    }

    /// See `ChannelInboundHandler`.
    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        guard !hasSaidGoodbye else { return }
        guard frame.reservedBits.isEmpty, (frame.maskKey != nil) == !masks else {
            return leave(.protocolError, context)
        }
        switch frame.opcode {
        case .binary where !isFragmented, .continuation where isFragmented:
            isFragmented = !frame.fin
            let bytes = frame.unmaskedData
            if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
        case .text: leave(.unacceptableData, context)
        case .ping where frame.fin:
            guard context.channel.isWritable else { return }
            send(WebSocketFrame(fin: true, opcode: .pong, maskKey: mask, data: frame.unmaskedData), context)
        case .pong where frame.fin: break
        case .connectionClose where frame.fin && frame.closeReason != nil: leave(.normal, context)
        default: leave(.protocolError, context)
        }
    }

    /// See `ChannelInboundHandler`.
    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let isOfFrames = error is NIOWebSocketError || error is WebSocketError
        guard isOfFrames else { return context.fireErrorCaught(error) }
        leave(.protocolError, context)
    }

    /// See `ChannelOutboundHandler`.
    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var bytes = unwrapOutboundIn(data)
        guard !hasSaidGoodbye else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        while bytes.readableBytes > Limits.streamMessageBytes,
            let part = bytes.readSlice(length: Limits.streamMessageBytes)
        {
            context.write(wrapOutboundOut(frame(part)), promise: nil)
        }
        context.write(wrapOutboundOut(frame(bytes)), promise: promise)
    }

    /// Says goodbye, then closes.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        sayGoodbye(.normal, context)
        context.close(mode: mode, promise: promise)
    }

    private func leave(_ reason: WebSocketClose, _ context: ChannelHandlerContext) {
        sayGoodbye(reason, context)
        context.close(promise: nil)
    }

    private func sayGoodbye(_ reason: WebSocketClose, _ context: ChannelHandlerContext) {
        guard !hasSaidGoodbye else { return }
        hasSaidGoodbye = true
        send(WebSocketFrame.close(reason, maskKey: mask), context)
    }

    private func frame(_ bytes: ByteBuffer) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: .binary, maskKey: mask, data: bytes)
    }

    private var mask: WebSocketMaskingKey? { masks ? .random() : nil }

    private func send(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    }
}
