import NIOCore

/// Holds bytes that arrive on a WebSocket, before they are decoded, until the connection's owner has added
/// its own handlers to the pipeline and removes this one.
final class PendingBytesHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = Any
    typealias OutboundIn = Any

    private var pending: [NIOAny] = []
    private var isInputClosed = false

    func read(context: ChannelHandlerContext) {}

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { pending.append(data) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event as? ChannelEvent == .inputClosed else {
            return context.fireUserInboundEventTriggered(event)
        }
        isInputClosed = true
    }

    func removeHandler(context: ChannelHandlerContext, removalToken: ChannelHandlerContext.RemovalToken) {
        for bytes in pending { context.fireChannelRead(bytes) }
        if !pending.isEmpty { context.fireChannelReadComplete() }
        pending = []
        // The event comes only once, so it must be passed on.
        if isInputClosed { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
        context.read()
        context.leavePipeline(removalToken: removalToken)
    }
}
