import Foundation
import HTTPTypes
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOSSL
import NIOWebSocket

/// A connection that speaks HTTP/1.1, or WebSocket if its first request asks for that at a registered path
/// and the route accepts it.
///
/// The route decides before the upgrade, so a refused client gets an ordinary HTTP answer with an error body.
struct UpgradeChannel: ServerChildChannel, HTTPChannelHandler {
    typealias HTTPConnection = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

    /// A connection whose protocol its first request will decide.
    struct Value: ServerChildChannelValue {
        let channel: any Channel
        let outcome: EventLoopFuture<Outcome>
    }

    /// The protocol that a connection speaks after its first request.
    enum Outcome: Sendable {
        case http(HTTPConnection)
        case refused(HTTPConnection, any Error)
        case webSocket(WebSocketChannel, WebSocketRoute.Handler)
    }

    let responder: HTTPChannelHandler.Responder
    let routes: [String: WebSocketRoute]
    let idleTimeout: Duration
    let tls: TLSFiles?

    init(
        responder: @escaping HTTPChannelHandler.Responder, routes: [WebSocketRoute], tls: TLSFiles? = nil,
        idleTimeout: Duration = Limits.idleConnection
    ) {
        self.tls = tls
        self.responder = responder
        self.routes = Dictionary(uniqueKeysWithValues: routes.map { ($0.path, $0) })
        self.idleTimeout = idleTimeout
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture { try configure(channel, logger) }
    }

    private func configure(_ channel: any Channel, _ logger: Logger) throws -> Value {
        // Guarded by the event loop; nil until the route of an upgrade has decided.
        let decision = NIOLoopBoundBox<Result<WebSocketRoute.Accepted, any Error>?>(
            nil, eventLoop: channel.eventLoop)
        let isUpgrade = NIOLoopBoundBox(false, eventLoop: channel.eventLoop)
        let upgrader = NIOTypedWebSocketServerUpgrader<Outcome>(
            maxFrameSize: Limits.webSocketFrameBytes, enableAutomaticErrorHandling: false,
            shouldUpgrade: { channel, head in
                let request = WebSocketRequest(head, remoteAddress: channel.remoteAddress)
                let isSound = Self.isSound(head)
                return decide(request, isSound: isSound, on: channel).map { result in
                    decision.value = result
                    guard case .success(let accepted) = result else { return nil }
                    return routes[request.path]?.acceptHeaders(request, accepted) ?? [:]
                }
            },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture {
                    guard case .success(let accepted)? = decision.value else {
                        preconditionFailure("an upgrade without a decision")
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(WebSocketQuiesceHandler())
                    let decoder = try pipeline.handler(
                        type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
                    try pipeline.addHandler(
                        HeldBytesHandler(), name: HeldBytesHandler.name, position: .before(decoder))
                    return .webSocket(channel, accepted.handler)
                }
            })
        let encoder = HTTPResponseEncoder()
        // Holds bytes that come after the upgrade request until the route has decided.
        let decoder = ByteToMessageHandler(
            HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes),
            maximumBufferSize: Limits.webSocketFrameBytes)
        let filter = UpgradeFilter(
            paths: Set(routes.keys), patience: idleTimeout, onUpgrade: { isUpgrade.value = true })
        let upgradeHandler = NIOTypedHTTPServerUpgradeHandler<Outcome>(
            httpEncoder: encoder, extraHTTPHandlers: [decoder, filter],
            upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration(
                upgraders: [upgrader],
                notUpgradingCompletionHandler: { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let connection = try http(on: channel, logger)
                        guard isUpgrade.value else { return .http(connection) }
                        guard case .failure(let error)? = decision.value else {
                            return .refused(connection, Self.malformedUpgrade)
                        }
                        return .refused(connection, error)
                    }
                }))
        let operations = channel.pipeline.syncOperations
        if let tls { try operations.addHandler(NIOSSLServerHandler(context: tls.context())) }
        try operations.addHandlers([encoder, decoder, filter])
        try operations.addHandler(upgradeHandler)
        return Value(channel: channel, outcome: upgradeHandler.upgradeResultFuture)
    }

    private static let malformedUpgrade = MalformedUpgrade()

    /// Returns whether a request meets the demands of RFC 6455 section 4.2.1 that NIO does not check:
    /// HTTP/1.1, a host, a key of 16 bytes as base64.
    private static func isSound(_ head: HTTPRequestHead) -> Bool {
        let keys = head.headers["sec-websocket-key"]
        guard head.version == .http1_1, head.headers["host"].count == 1, keys.count == 1,
            let bytes = Data(base64Encoded: keys[0])
        else { return false }
        return bytes.count == 16
    }

    private func decide(
        _ request: WebSocketRequest, isSound: Bool, on channel: any Channel
    ) -> EventLoopFuture<Result<WebSocketRoute.Accepted, any Error>> {
        let promise = channel.eventLoop.makePromise(of: Result<WebSocketRoute.Accepted, any Error>.self)
        promise.completeWithTask {
            guard let route = routes[request.path] else {
                return .failure(ServiceError(.notFound, "nothing is served at this path"))
            }
            guard isSound else { return .failure(Self.malformedUpgrade) }
            do {
                return .success(try await route.authorize(request))
            } catch {
                return .failure(error)
            }
        }
        return promise.futureResult
    }

    private func http(on channel: any Channel, _ logger: Logger) throws -> HTTPConnection {
        let operations = channel.pipeline.syncOperations
        try operations.addHandler(HTTP1ToHTTPServerCodec(secure: tls != nil))
        try operations.addHandler(HTTPConnectionStateHandler(idleTimeout: idleTimeout, logger: logger))
        return try NIOAsyncChannel(
            wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
    }

    func handle(value: Value, logger: Logger) async {
        // A connection that ended before its first request has no outcome and needs no log line.
        guard let outcome = try? await value.outcome.get() else { return }
        switch outcome {
        case .http(let connection):
            await handleHTTP(asyncChannel: connection, logger: logger)
        case .refused(let connection, let error):
            let reported = ErrorAnswer.reportable(error)
            logger.info(
                "upgrade refused",
                metadata: ["status": "\(reported.httpStatus.code)", "code": "\(reported.publicCode)"])
            if reported.httpStatus.code >= 500 {
                logger.error("upgrade failed", metadata: ["error": "\(error)"])
            }
            await refuse(connection, reported)
        case .webSocket(let channel, let handler):
            let open = Meter(label: "websocket_connections")
            open.increment()
            channel.closeFuture.whenComplete { _ in open.decrement() }
            await handler(channel, logger)
        }
    }

    private func refuse(_ connection: HTTPConnection, _ error: any HTTPReportable) async {
        let body = ErrorAnswer.json(code: error.publicCode, message: error.publicMessage)
        var headers = error.httpHeaders
        headers[.contentType] = "application/json"
        headers[.contentLength] = "\(body.count)"
        headers[.connection] = "close"
        let answer: [HTTPResponsePart] = [
            .head(HTTPResponse(status: error.httpStatus, headerFields: headers)),
            .body(ByteBuffer(bytes: body)),
            HTTPResponsePart.end(nil),
        ]
        // Errors are ignored: the client has gone.
        try? await connection.executeThenClose { _, outbound in
            try await outbound.write(contentsOf: answer)
        }
    }
}

/// A malformed upgrade request; the answer names the supported version (RFC 6455 section 4.2.2).
private struct MalformedUpgrade: HTTPReportable {
    var httpStatus: HTTPResponse.Status { .badRequest }
    var publicCode: String { ServiceErrorCode.badRequest.rawValue }
    var publicMessage: String {
        "the WebSocket upgrade is malformed: it needs HTTP/1.1, Host, Sec-WebSocket-Key and version 13"
    }
    var httpHeaders: HTTPFields { [.secWebSocketVersion: "13"] }
}
