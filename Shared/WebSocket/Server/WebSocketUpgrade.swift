import Foundation
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// The server's side of an upgrade: a connection speaks HTTP/1.1, or WebSocket if its first request asks for
/// that at a registered path and the route accepts it.
///
/// The route decides before the upgrade, so a refused client gets an ordinary HTTP answer. The caller speaks
/// HTTP itself: `Plain` is its type for a channel that was not upgraded.
public struct WebSocketUpgrade<Plain: Sendable>: Sendable {
    /// The protocol that a connection speaks after its first request.
    public enum Outcome: Sendable {
        /// Its first request did not ask for a WebSocket.
        case plain(Plain)
        /// Its first request asked for one and was refused; the caller must answer it with the error.
        case refused(Plain, any Error)
        /// It was upgraded; the handler runs it.
        case webSocket(WebSocketChannel, WebSocketRoute.Handler)
    }

    private let routes: [String: WebSocketRoute]
    private let patience: Duration
    private let malformed: any Error

    /// An upgrade at the paths of `routes`, which must differ.
    /// - Parameters:
    ///   - patience: how long a connection may be silent before its first request.
    ///   - malformed: the error of an upgrade request that breaks RFC 6455 section 4.2.1.
    public init(routes: [WebSocketRoute], patience: Duration, malformed: any Error) {
        self.routes = Dictionary(uniqueKeysWithValues: routes.map { ($0.path, $0) })
        self.patience = patience
        self.malformed = malformed
    }

    /// Adds the handlers of HTTP/1.1 and of the upgrade to a channel, on its event loop.
    /// - Parameters:
    ///   - limits: of a request's head; a larger one is an error of the decoder.
    ///   - before: a handler before the decoder, which sees bytes.
    ///   - after: a handler after it, which sees parts of requests and the decoder's errors. An upgrade takes
    ///     both out of the pipeline.
    ///   - plain: takes over a channel that was not upgraded.
    public func configure(
        _ channel: any Channel, limits: NIOHTTPDecoderLimitConfiguration,
        before: any ChannelHandler & RemovableChannelHandler,
        after: any ChannelHandler & RemovableChannelHandler,
        plain: @escaping @Sendable (any Channel) throws -> Plain
    ) throws -> EventLoopFuture<Outcome> {
        try Self.setReads(Limits.readBytes, on: channel)
        // Guarded by the event loop; nil until the route of an upgrade has decided.
        let decision = NIOLoopBoundBox<Result<WebSocketRoute.Accepted, any Error>?>(
            nil, eventLoop: channel.eventLoop)
        let isUpgrade = NIOLoopBoundBox(false, eventLoop: channel.eventLoop)
        let upgrader = NIOTypedWebSocketServerUpgrader<Outcome>(
            maxFrameSize: WebSocketConfiguration.defaultMessageBytes, enableAutomaticErrorHandling: false,
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
                    // Frames may be tiny, and others wait for the event loop meanwhile.
                    try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 1)
                    try Self.setReads(Limits.frameReadBytes, on: channel)
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(WebSocketQuiesceHandler())
                    let decoder = try pipeline.handler(
                        type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
                    try pipeline.addHandler(PendingBytesHandler(), position: .before(decoder))
                    return .webSocket(channel, accepted.handler)
                }
            })
        let encoder = HTTPResponseEncoder()
        // Holds bytes that come after the upgrade request until the route has decided.
        let decoder = ByteToMessageHandler(
            HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: limits),
            maximumBufferSize: WebSocketConfiguration.defaultMessageBytes)
        let filter = UpgradeFilter(
            paths: Set(routes.keys), patience: patience, onUpgrade: { isUpgrade.value = true })
        let upgradeHandler = NIOTypedHTTPServerUpgradeHandler<Outcome>(
            httpEncoder: encoder, extraHTTPHandlers: [before, decoder, after, filter],
            upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration(
                upgraders: [upgrader],
                notUpgradingCompletionHandler: { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let connection = try plain(channel)
                        guard isUpgrade.value else { return .plain(connection) }
                        guard case .failure(let error)? = decision.value else {
                            return .refused(connection, malformed)
                        }
                        return .refused(connection, error)
                    }
                }))
        let operations = channel.pipeline.syncOperations
        try operations.addHandlers([encoder, before, decoder, after, filter])
        try operations.addHandler(upgradeHandler)
        return upgradeHandler.upgradeResultFuture
    }

    /// Sets how much one read of a connection takes at most. A connection keeps the buffer of its first read
    /// for good: a small one costs an idle session less.
    private static func setReads(_ bytes: Int, on channel: any Channel) throws {
        try channel.syncOptions?.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(
                minimum: 64, initial: Limits.firstReadBytes, maximum: bytes))
    }

    /// Returns whether a request meets the demands of RFC 6455 section 4.2.1 that NIO does not check:
    /// HTTP/1.1, a host, a key of 16 bytes as base64.
    private static func isSound(_ head: HTTPRequestHead) -> Bool {
        let keys = head.headers["sec-websocket-key"]
        guard head.version == .http1_1, head.headers["host"].count == 1, keys.count == 1,
            let bytes = Data(base64Encoded: keys[0])
        else { return false }
        return bytes.count == 16
    }

    /// Asks the route. Each request has one: the filter lets only upgrades to registered paths through.
    private func decide(
        _ request: WebSocketRequest, isSound: Bool, on channel: any Channel
    ) -> EventLoopFuture<Result<WebSocketRoute.Accepted, any Error>> {
        let promise = channel.eventLoop.makePromise(of: Result<WebSocketRoute.Accepted, any Error>.self)
        promise.completeWithTask {
            guard let route = routes[request.path], isSound else { return .failure(malformed) }
            do {
                return .success(try await route.authorize(request))
            } catch {
                return .failure(error)
            }
        }
        return promise.futureResult
    }
}
