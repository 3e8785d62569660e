import NIOCore

/// Counts the bytes of a connection that has not proven itself, at the front of its pipeline, and closes it
/// above a limit: what nobody has vouched for must not fill the memory. The event loop guards its state.
final class OpeningHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private var left = Limits.openingBytes

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        left -= unwrapInboundIn(data).readableBytes
        guard left >= 0 else { return context.close(promise: nil) }
        context.fireChannelRead(data)
    }

    /// Ends the counting on a channel.
    static func release(_ channel: any Channel) {
        channel.eventLoop.execute {
            let pipeline = channel.pipeline.syncOperations
            guard let handler = try? pipeline.handler(type: OpeningHandler.self) else { return }
            pipeline.removeHandler(handler, promise: nil)
        }
    }
}
