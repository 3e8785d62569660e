import HTTPTypes
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOSSL
import WebSocket

/// The child channel that Hummingbird asks for: HTTP/1.1 with or without TLS, or a WebSocket
/// (`WebSocketUpgrade`). A refused upgrade is answered with the error's body. `RequestGate` keeps the rules
/// that all requests share.
struct UpgradeChannel: ServerChildChannel, HTTPChannelHandler {
    typealias HTTPConnection = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

    /// A connection whose protocol its first request will decide.
    struct Value: ServerChildChannelValue {
        let channel: any Channel
        let outcome: EventLoopFuture<WebSocketUpgrade<HTTPConnection>.Outcome>
    }

    let responder: HTTPChannelHandler.Responder
    let upgrade: WebSocketUpgrade<HTTPConnection>
    let idleTimeout: Duration
    let tls: TLSFiles?
    let forwarding: ForwardingWatch?
    let drain: HostDrain?
    let briefs: BriefRoutes?

    init(
        responder: @escaping HTTPChannelHandler.Responder, routes: [WebSocketRoute],
        briefs: BriefRoutes? = nil, tls: TLSFiles? = nil,
        forwarding: ForwardingWatch? = nil, drain: HostDrain? = nil,
        idleTimeout: Duration = Limits.idleConnection
    ) {
        self.briefs = briefs
        self.tls = tls
        self.forwarding = forwarding
        self.drain = drain
        self.responder = responder
        self.idleTimeout = idleTimeout
        upgrade = WebSocketUpgrade(
            routes: routes, patience: idleTimeout, malformed: MalformedUpgrade())
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            if let tls {
                try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls.context()))
            }
            let gate = RequestGate(logger: logger, forwarding: forwarding, drain: drain)
            let outcome = try upgrade.configure(
                channel, limits: Self.headLimits, before: HeadWatch(gate: gate), after: gate
            ) { try http(on: $0, logger) }
            return Value(channel: channel, outcome: outcome)
        }
    }

    private static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = Limits.headLineBytes
        limits.maxHeaderListSize = Limits.headBytes
        limits.maxHeaderFieldCount = Limits.headFields
        return limits
    }

    private func http(on channel: any Channel, _ logger: Logger) throws -> HTTPConnection {
        let operations = channel.pipeline.syncOperations
        if let briefs, !briefs.routes.isEmpty {
            try operations.addHandler(BriefLane(briefs, logger: logger))
        }
        try operations.addHandler(HTTP1ToHTTPServerCodec(secure: tls != nil))
        try operations.addHandler(HTTPConnectionStateHandler(idleTimeout: idleTimeout, logger: logger))
        return try NIOAsyncChannel(
            wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
    }

    func handle(value: Value, logger: Logger) async {
        // A connection that ended before its first request has no outcome and needs no log line.
        guard let outcome = try? await value.outcome.get() else { return }
        switch outcome {
        case .plain(let connection):
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
            let open = ["mimeo_websocket_connections", "websocket_connections"].map { Meter(label: $0) }
            for meter in open { meter.increment() }
            channel.closeFuture.whenComplete { _ in
                for meter in open { meter.decrement() }
            }
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
