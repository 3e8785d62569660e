import Exchange
import Foundation
import Identity
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import WebSocket

/// An address at which a peer takes connections of others.
public struct MeshListener: Sendable, Hashable, CustomStringConvertible {
    /// The key and certificate of a listener that speaks wss, in files of PEM.
    public struct Files: Sendable, Hashable {
        let key: String
        let certificate: String

        /// These files.
        public init(key: String, certificate: String) {
            self.key = key
            self.certificate = certificate
        }
    }

    /// The kind of links that it takes.
    public let kind: LinkKind
    let host: String
    /// 0 for any free port.
    let port: Int
    let files: Files?

    /// A listener for TCP connections. The host may stand in brackets. Nil for an unusable host.
    public init?(tcp host: String, port: Int) {
        self.init(.tcp, host, port, nil)
    }

    /// A listener for WebSockets at `/_ditto/mesh`; with files it speaks wss. Nil for an unusable host.
    public init?(webSocket host: String, port: Int, files: Files? = nil) {
        self.init(.webSocket, host, port, files)
    }

    private init?(_ kind: LinkKind, _ host: String, _ port: Int, _ files: Files?) {
        guard let plain = MeshAddress.host(host[...]) ?? (host.contains(":") ? host : nil),
            (0...65_535).contains(port)
        else { return nil }
        self.kind = kind
        self.host = plain
        self.port = port
        self.files = files
    }

    /// `tcp 127.0.0.1:4040`.
    public var description: String { "\(kind.rawValue) \(host.contains(":") ? "[\(host)]" : host):\(port)" }
}

/// Makes the connections of links: dials, listens, and sets up their pipelines.
struct LinkSockets: Sendable {
    let security: LinkSecurity
    var times = LinkConnection.Times()
    var sendsSmallPacketsAtOnce = true
    var group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton

    /// Connects with an address.
    /// - Throws: the reason as a `SyncError`.
    func dial(_ address: MeshAddress) async throws -> LinkConnection {
        do {
            let tls = try security.tls()
            let made = Mutex<LinkConnection?>(nil)
            let open: @Sendable (any Channel) throws -> Void = { [times] channel in
                let connection = try LinkConnection.openNow(
                    over: channel, tls: tls, isDialer: true, times: times)
                made.withLock { $0 = connection }
            }
            switch address.kind {
            case .tcp(let host, let port): try await connect(host, port, open)
            case .webSocket(let url): try await upgrade(url, open)
            }
            guard let connection = made.withLock({ $0 }) else {
                throw SyncError(.unavailable, "the connection was closed")
            }
            return connection
        } catch let error as SyncError {
            throw error
        } catch let error as IdentityError {
            throw SyncError(code: error.code.rawValue, message: error.message)
        } catch let error as WebSocketError {
            throw SyncError(.unavailable, error.description)
        } catch {
            throw SyncError(.unavailable, "cannot connect with \(address): \("\(error)".prefix(200))")
        }
    }

    private func connect(
        _ host: String, _ port: Int, _ open: @escaping @Sendable (any Channel) throws -> Void
    ) async throws {
        let bootstrap = ClientBootstrap(group: group)
            .connectTimeout(.nanoseconds(Limits.connectTime.nanoseconds))
            .channelOption(.tcpOption(.tcp_nodelay), value: sendsSmallPacketsAtOnce ? 1 : 0)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try open(channel) }
            }
        // The resolver refuses addresses of a family that no interface of a network has.
        if let address = try? SocketAddress(ipAddress: host, port: port) {
            _ = try await bootstrap.connect(to: address).get()
        } else {
            _ = try await bootstrap.connect(host: host, port: port).get()
        }
    }

    private func upgrade(
        _ text: String, _ open: @escaping @Sendable (any Channel) throws -> Void
    ) async throws {
        guard let url = URL(string: text) else { throw SyncError(.unavailable, "\(text) is no URL") }
        let client = WebSocketClient(
            address: try WebSocketAddress(url),
            subprotocols: [LinkSecurity.applicationProtocol, Self.serverProtocol], group: group)
        let (channel, answer) = try await client.bytes(open)
        switch answer["Sec-WebSocket-Protocol"] {
        case LinkSecurity.applicationProtocol: return
        case Self.serverProtocol:
            channel.close(promise: nil)
            throw SyncError(
                .unexpectedMessage, "\(text) is a server's address: name it in DittoConfig.connect")
        default:
            channel.close(promise: nil)
            throw SyncError(.versionMismatch, "\(text) does not speak the protocol of links")
        }
    }

    private static let serverProtocol = "mimeo.sync.1"

    /// Opens a port. Each connection is taken over on its event loop: `accepted` when it came, `opened` when
    /// its bytes are those of a link; between them lies the upgrade of a WebSocket.
    func listen(
        _ listener: MeshListener, accepted: @escaping @Sendable (any Channel) -> Void,
        opened: @escaping @Sendable (any Channel, LinkConnection) -> Void
    ) async throws -> any Channel {
        let begin: @Sendable (any Channel) throws -> Void = { channel in
            try channel.pipeline.syncOperations.addHandler(OpeningHandler())
            accepted(channel)
        }
        let open: @Sendable (any Channel) throws -> Void = { [security, times] channel in
            let tls = try security.tls()
            opened(
                channel,
                try LinkConnection.openNow(over: channel, tls: tls, isDialer: false, times: times))
        }
        guard listener.kind == .webSocket else {
            return try await listenTCP(listener, begin, open)
        }
        let sockets = try WebSocketListener(
            path: MeshAddress.path, subprotocols: [LinkSecurity.applicationProtocol],
            tls: try listener.files.map(Self.tls), patience: Limits.greetingTime)
        return try await sockets.bind(
            host: listener.host, port: listener.port, group: group, accepted: begin, upgraded: open)
    }

    private func listenTCP(
        _ listener: MeshListener, _ begin: @escaping @Sendable (any Channel) throws -> Void,
        _ open: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> any Channel {
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Limits.backlog)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: sendsSmallPacketsAtOnce ? 1 : 0)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try begin(channel)
                    try open(channel)
                }
            }
        do {
            return try await bootstrap.listen(host: listener.host, port: listener.port)
        } catch let error as IOError where error.errnoCode == EAFNOSUPPORT && listener.host == "::" {
            // A kernel without IPv6: every address is one of IPv4.
            return try await bootstrap.listen(host: "0.0.0.0", port: listener.port)
        }
    }

    /// The reason why a port cannot be opened.
    static func listenFailure(_ error: any Error) -> SyncError {
        let text =
            switch (error as? IOError)?.errnoCode {
            case EADDRINUSE: "another program listens at this port"
            case EADDRNOTAVAIL: "this device has no such address"
            case EACCES: "this user may not listen at this port"
            default: "cannot listen: \("\(error)".prefix(200))"
            }
        return SyncError(.unavailable, text)
    }

    private static func tls(_ files: MeshListener.Files) throws -> TLSConfiguration {
        let chain = try NIOSSLCertificate.fromPEMFile(files.certificate)
        return TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: files.key, format: .pem)))
    }
}
