import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import Synchronization

/// Dials a server and runs one WebSocket connection.
public struct WebSocketClient: Sendable {
    private let address: WebSocketAddress
    private let headers: [(name: String, value: String)]
    private let subprotocols: [String]
    private let configuration: WebSocketConfiguration
    private let tls: TLSConfiguration
    private let group: any EventLoopGroup

    /// - Parameters:
    ///   - headers: sent with the upgrade request, `Authorization` for example.
    ///   - subprotocols: offered in `Sec-WebSocket-Protocol`, best first.
    ///   - tls: trust and certificates for `wss`; the system's trust by default.
    public init(
        address: WebSocketAddress, headers: [(name: String, value: String)] = [], subprotocols: [String] = [],
        configuration: WebSocketConfiguration = WebSocketConfiguration(),
        tls: TLSConfiguration = .trusting(),
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) {
        self.address = address
        self.headers = headers
        self.subprotocols = subprotocols
        self.configuration = configuration
        self.tls = tls
        self.group = group
    }

    /// Connects, upgrades, runs `body` and closes, like `WebSocketConnection.run`.
    /// - Throws: `WS-0102`, `WS-0103`, `WS-0104`, `WS-0105`, or the error of `body`.
    public func run<Result: Sendable>(
        _ body: @Sendable (WebSocketConnection) async throws -> Result
    ) async throws -> Result {
        try await run { connection, _ in try await body(connection) }
    }

    /// The same; `body` also gets the server's answer to the upgrade.
    public func run<Result: Sendable>(
        _ body: @Sendable (WebSocketConnection, Answer) async throws -> Result
    ) async throws -> Result {
        // Opened on the event loop, because the server may send at once.
        let (connection, answer) = try await connect { [configuration] channel in
            try WebSocketConnection.openNow(over: channel, role: .client, configuration: configuration)
        }
        return try await connection.run { try await body($0, answer) }
    }

    /// Connects and upgrades, and gives the channel as a stream of bytes: each message's bytes follow those
    /// of the one before (`WebSocketBytes`). The caller closes the channel.
    /// - Parameter configure: adds the caller's handlers of bytes, on the event loop, once the upgrade has
    ///   ended: they may write at once. Until then the other side must be silent.
    /// - Throws: as `run`.
    public func bytes(
        _ configure: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> (channel: any Channel, answer: Answer) {
        let (channel, answer) = try await connect { channel in
            try WebSocketBytes.openNow(over: channel, role: .client)
            return channel
        }
        do {
            try await channel.eventLoop.submit { try configure(channel) }.get()
        } catch {
            channel.close(promise: nil)
            throw error
        }
        return (channel, answer)
    }

    /// The server's answer to an accepted upgrade.
    public struct Answer: Sendable {
        private let fields: HTTPHeaders

        fileprivate init(_ fields: HTTPHeaders) { self.fields = fields }

        /// The value of a header field; nil if it is missing or repeated.
        public subscript(_ name: String) -> String? {
            let values = fields[name]
            return values.count == 1 ? values[0] : nil
        }
    }

    private enum Upgrade<Opened: Sendable>: Sendable {
        case accepted(Opened, Answer)
        case refused(NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>)
    }

    private func connect<Opened: Sendable>(
        _ open: @escaping @Sendable (any Channel) throws -> Opened
    ) async throws -> (Opened, Answer) {
        let deadline = Deadline()
        let upgrade: Upgrade<Opened>
        do {
            let sslContext = try address.isSecure ? NIOSSLContext(configuration: tls) : nil
            let future: EventLoopFuture<Upgrade<Opened>> = try await ClientBootstrap(group: group)
                .connectTimeout(TimeAmount(configuration.connectTimeout))
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .connect(host: address.host, port: address.port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try configure(channel, sslContext, deadline, open)
                    }
                }
            upgrade = try await future.get()
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            guard !deadline.hasPassed, !Self.isTimeout(error) else {
                throw WebSocketError(.connectTimeout, "\(address.authority) did not answer in time")
            }
            guard !PlainServer.isMeant(by: error) else {
                throw WebSocketError(.plainServer, PlainServer.message(address.authority))
            }
            throw WebSocketError(
                .connectFailed, "cannot connect to \(address.authority): \(Self.reason(error))")
        }
        switch upgrade {
        case .accepted(let connection, let answer): return (connection, answer)
        case .refused(let channel): throw try await refusal(channel)
        }
    }

    /// The reason of a failure, for a person.
    private static func reason(_ error: any Error) -> String {
        switch error {
        // NIO's words for a connection that ends during the upgrade.
        case ChannelError.inappropriateOperationForState, ChannelError.eof, ChannelError.ioOnClosedChannel:
            "it closed the connection without an answer to the upgrade: it may be no WebSocket server"
        case is HTTPParserError: "its answer is no HTTP: it is no WebSocket server"
        // BoringSSL's name, which NIOSSL passes on as text only.
        case _ where "\(error)".contains("CERTIFICATE_VERIFY_FAILED"):
            "its certificate is of no authority that this device trusts"
        default: "\(error)"
        }
    }

    /// Returns whether connecting took too long. The error tells, not a clock: on a busy machine a clock
    /// would blame the server.
    private static func isTimeout(_ error: any Error) -> Bool {
        switch error {
        case ChannelError.connectTimeout: true
        case let error as NIOConnectionError:
            error.connectionErrors.contains { failure in
                if case ChannelError.connectTimeout = failure.error { true } else { false }
            }
        default: false
        }
    }

    private func configure<Opened: Sendable>(
        _ channel: any Channel, _ sslContext: NIOSSLContext?, _ deadline: Deadline,
        _ open: @escaping @Sendable (any Channel) throws -> Opened
    ) throws -> EventLoopFuture<Upgrade<Opened>> {
        if let sslContext {
            try channel.pipeline.syncOperations.addHandler(
                NIOSSLClientHandler(context: sslContext, serverHostname: address.serverName))
        }
        let upgrader = NIOTypedWebSocketClientUpgrader<Upgrade<Opened>>(
            maxFrameSize: configuration.maximumMessageBytes, enableAutomaticErrorHandling: false,
            upgradePipelineHandler: { [subprotocols] channel, head in
                channel.eventLoop.makeCompletedFuture {
                    try Self.check(head, offered: subprotocols)
                    return .accepted(try open(channel), Answer(head.headers))
                }
            })
        let upgrade = NIOTypedHTTPClientUpgradeConfiguration<Upgrade<Opened>>(
            upgradeRequestHead: request, upgraders: [upgrader],
            notUpgradingCompletionHandler: { channel in
                channel.eventLoop.makeCompletedFuture {
                    .refused(try NIOAsyncChannel(wrappingChannelSynchronously: channel))
                }
            })
        var pipeline = NIOUpgradableHTTPClientPipelineConfiguration(upgradeConfiguration: upgrade)
        // The server's first frame may come in one segment with its answer to the upgrade.
        pipeline.leftOverBytesStrategy = .forwardBytes
        let result = try channel.pipeline.syncOperations.configureUpgradableHTTPClientPipeline(
            configuration: pipeline)
        let timeout = channel.eventLoop.scheduleTask(in: TimeAmount(configuration.connectTimeout)) {
            deadline.pass()
            channel.close(promise: nil)
        }
        // The timeout covers a refusal's body too: its channel is closed when the time is over.
        result.whenComplete { outcome in
            if case .success(.refused) = outcome { return }
            timeout.cancel()
            // The answer was neither an upgrade nor an HTTP refusal, so nobody else closes the channel.
            if case .failure = outcome { channel.close(promise: nil) }
        }
        return result
    }

    /// Checks that the answer to an upgrade chooses no extension and no protocol that was not offered
    /// (RFC 6455 section 4.1). NIO has checked its key.
    /// - Throws: `WS-0205`.
    private static func check(
        _ answer: HTTPResponseHead, offered subprotocols: [String]
    ) throws(WebSocketError) {
        let chosen = answer.headers[canonicalForm: "sec-websocket-protocol"]
        guard chosen.isEmpty || chosen.count == 1 && subprotocols.contains(String(chosen[0])) else {
            throw WebSocketError(.protocolViolation, "the server chose a protocol that was not offered")
        }
        guard !answer.headers.contains(name: "sec-websocket-extensions") else {
            throw WebSocketError(.protocolViolation, "the server chose an extension; none was offered")
        }
    }

    private var request: HTTPRequestHead {
        var fields = HTTPHeaders([("Host", address.authority)])
        if !subprotocols.isEmpty {
            fields.add(name: "Sec-WebSocket-Protocol", value: subprotocols.joined(separator: ", "))
        }
        for header in headers { fields.add(name: header.name, value: header.value) }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: address.path, headers: fields)
    }

    /// Returns the error for an answer that is not an upgrade, with the server's code and message from a
    /// short JSON body.
    private func refusal(
        _ channel: NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>
    ) async throws -> WebSocketError {
        let bodyLimitBytes = 16 * 1024
        return try await channel.executeThenClose { inbound, _ in
            var status = 0
            var body: [UInt8] = []
            do {
                for try await part in inbound {
                    switch part {
                    case .head(let head): status = Int(head.status.code)
                    case .body(let buffer):
                        body += buffer.readableBytesView.prefix(bodyLimitBytes - body.count)
                    case .end: return Self.refusal(status: status, body: body)
                    }
                }
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                // Only the status matters; a truncated body costs no more than its message.
            }
            guard status != 0 else {
                return WebSocketError(.connectTimeout, "the server closed without an answer to the upgrade")
            }
            return Self.refusal(status: status, body: body)
        }
    }

    private static func refusal(status: Int, body: [UInt8]) -> WebSocketError {
        struct Body: Decodable {
            struct Failure: Decodable { var code: String, message: String }
            var error: Failure
        }
        let told = try? JSONDecoder().decode(Body.self, from: Data(body)).error
        return WebSocketError(
            .upgradeRefused,
            told.map { "the server refused: \($0.message)" } ?? "the server answered \(status)",
            status: status, serverCode: told?.code)
    }
}

/// Remembers that an upgrade took too long: the caller learns only that the channel was closed.
private final class Deadline: Sendable {
    private let passed = Mutex(false)
    var hasPassed: Bool { passed.withLock { $0 } }
    func pass() { passed.withLock { $0 = true } }
}
