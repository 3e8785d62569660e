import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Accepts WebSockets at one path, and answers every other request with 404, and bytes that are no HTTP with
/// 400: for a program without an HTTP server of its own.
public struct WebSocketListener: Sendable {
    private let path: String
    private let subprotocols: [String]
    private let tls: NIOSSLContext?
    private let patience: Duration

    /// A listener for `path`.
    /// - Parameters:
    ///   - tls: the server's certificate and key; nil speaks http.
    ///   - patience: how long a connection may be silent before its request.
    public init(path: String, subprotocols: [String], tls: TLSConfiguration?, patience: Duration) throws {
        self.path = path
        self.subprotocols = subprotocols
        self.tls = try tls.map { try NIOSSLContext(configuration: $0) }
        self.patience = patience
    }

    /// Opens the port.
    /// - Parameters:
    ///   - accepted: called for each connection, on its event loop, before its request.
    ///   - upgraded: takes over a connection as a stream of bytes: adds its handlers, on the event loop.
    public func bind(
        host: String, port: Int, group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        accepted: @escaping @Sendable (any Channel) throws -> Void,
        upgraded: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> any Channel {
        try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Limits.backlog)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try accepted(channel)
                    try configure(channel, upgraded)
                }
            }
            .listen(host: host, port: port)
    }

    private func configure(
        _ channel: any Channel, _ upgraded: @escaping @Sendable (any Channel) throws -> Void
    ) throws {
        if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
        let route = WebSocketRoute(path: path, subprotocols: subprotocols) { _ in
            WebSocketRoute.Accepted(handler: { _, _ in }, headers: [])
        }
        let upgrade = WebSocketUpgrade<Void>(
            routes: [route], patience: patience,
            malformed: WebSocketError(.protocolViolation, "the WebSocket upgrade is malformed"))
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = Limits.headBytes
        limits.maxHeaderListSize = Limits.headBytes
        let outcome = try upgrade.configure(
            channel, limits: limits, before: Passage(), after: MalformedHandler()
        ) { channel in
            try channel.pipeline.syncOperations.addHandler(NotFoundHandler())
        }
        outcome.whenComplete { result in
            guard case .success(let outcome) = result else { return channel.close(promise: nil) }
            guard case .webSocket(let channel, _) = outcome else { return }
            do {
                try WebSocketBytes.openNow(over: channel, role: .server, upgraded)
            } catch {
                channel.close(promise: nil)
            }
        }
    }
}

extension ServerBootstrap {
    /// Opens a port at a name or an address. An address is taken as it is: the resolver refuses `::` where
    /// an interface has an IPv4 address and none an IPv6 address, though the system listens there.
    package func listen(host: String, port: Int) async throws -> any Channel {
        guard let address = try? SocketAddress(ipAddress: host, port: port) else {
            return try await bind(host: host, port: port).get()
        }
        return try await bind(to: address).get()
    }
}

/// Answers bytes that are no HTTP with 400 and closes: the other side learns at once that this is HTTP.
private final class MalformedHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny
    typealias OutboundOut = HTTPServerResponsePart

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is HTTPParserError else { return context.fireErrorCaught(error) }
        let head = HTTPResponseHead(
            version: .http1_1, status: .badRequest, headers: ["content-length": "0", "connection": "close"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}

/// Lets everything pass.
private final class Passage: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny
}

/// Answers each request with 404 and closes.
private final class NotFoundHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head = unwrapInboundIn(data) else { return }
        let head = HTTPResponseHead(
            version: .http1_1, status: .notFound, headers: ["content-length": "0", "connection": "close"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
