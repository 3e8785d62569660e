import NIOCore
import NIOHTTP1

/// Works around two gaps of NIO's upgrade handler, which follows it in the pipeline: NIO's loses requests for
/// an unregistered protocol (`Upgrade: h2c`, which common clients send unasked), and it ignores shutdown.
///
/// Removes the `Upgrade` header from every request that is not a WebSocket upgrade to a registered path; closes
/// a connection without any request when the server stops or the connection stays silent. The event loop
/// guards all state.
final class UpgradeFilter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private enum Phase { case silent, upgrading, plain }

    private let paths: Set<String>
    private let patience: TimeAmount
    private let onUpgrade: () -> Void
    private var phase = Phase.silent
    private var timer: Scheduled<Void>?

    /// - Parameters:
    ///   - patience: how long a connection may be silent before its first request.
    ///   - onUpgrade: called on the event loop when the connection's first request asks for an upgrade.
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
        // The caller's HTTP handler closes a plain connection once its request is answered.
        if event is ChannelShouldQuiesceEvent, phase != .plain {
            context.close(promise: nil)
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    private func asksForWebSocket(_ head: HTTPRequestHead) -> Bool {
        let path = WebSocketRoute.path(of: head.uri.prefix { $0 != "?" })
        // NIO compares each value whole, so a list of protocols is not accepted.
        let protocols = head.headers[canonicalForm: "upgrade"]
        return head.method == .GET && paths.contains(path) && protocols.count == 1
            && protocols[0].lowercased() == "websocket"
    }
}
