import NIOCore

/// Holds back what arrives on a WebSocket, before it is decoded, until whoever runs it has put its handlers
/// into the pipeline, and takes this one out.
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
        // It comes once only.
        if isInputClosed { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
        context.read()
        context.leavePipeline(removalToken: removalToken)
    }
}
