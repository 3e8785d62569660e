import Exchange
import NIOCore
import NIOSSL
import Sync

/// A pipe of bytes as a channel of frames (`FrameReader`), for either end.
///
/// It is ready once TLS is done (at once, without TLS). Back-pressure works by the session's reading, as in a
/// WebSocket: the socket is not read while too much waits. It has no task of its own.
final class LinkConnection: FrameChannel {
    let channel: any Channel
    private let handler: NIOLoopBound<LinkHandler>
    /// Succeeds when frames may be sent; fails with the reason why that will never be.
    let ready: EventLoopFuture<Void>
    let verdict: LinkTLS.Verdict
    /// The end of the own certificate, in seconds since 1970.
    let ownEndsAtSeconds: Int64
    /// The means by which it was secured; nil in the clear.
    let tls: LinkTLS?

    private init(
        _ channel: any Channel, _ handler: LinkHandler, _ verdict: LinkTLS.Verdict, _ tls: LinkTLS?
    ) {
        ownEndsAtSeconds = tls?.ownEndsAtSeconds ?? .max
        self.tls = tls
        self.channel = channel
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.verdict = verdict
        ready = handler.ready.futureResult
    }

    /// Times of a link; tests shorten them.
    struct Times: Sendable {
        var pingInterval = Limits.pingInterval
        var patience = Limits.linkPatience
    }

    /// Takes over a channel of bytes, on its event loop.
    static func openNow(
        over channel: any Channel, tls: LinkTLS?, isDialer: Bool, times: Times = Times()
    ) throws -> LinkConnection {
        let pipeline = channel.pipeline.syncOperations
        let verdict = LinkTLS.Verdict()
        try pipeline.addHandler(FirstByteHandler(speaksTLS: tls != nil))
        let handler = LinkHandler(
            channel.eventLoop.makePromise(), verdict, times, isSecure: tls != nil)
        if let tls { try pipeline.addHandler(tls.handler(isDialer: isDialer, verdict: verdict)) }
        try pipeline.addHandler(handler)
        return LinkConnection(channel, handler, verdict, tls)
    }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        onLoop { $0.begin(arrived) }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        channel.writeAndFlush(FrameReader.bytes(of: frame, channel.allocator)).whenComplete { result in
            if case .success = result { whenSent(true) } else { whenSent(false) }
        }
    }

    func nearby(_ work: @escaping @Sendable () -> Void) { channel.eventLoop.execute(work) }

    func end(code: UInt16, reason: String) async {
        onLoop { $0.discard() }
        let channel = channel
        let limit = channel.eventLoop.scheduleTask(in: .nanoseconds(Limits.lastFramesTimeout.nanoseconds)) {
            channel.close(promise: nil)
        }
        // Behind all frames that were posted.
        _ = try? await channel.writeAndFlush(ByteBuffer(integer: UInt32(0))).get()
        channel.close(promise: nil)
        limit.cancel()
    }

    /// Ends without a word.
    func drop() { channel.close(promise: nil) }

    /// The rule that the other side broke, or the reason of a failed handshake; nil if there is none.
    func failure() async -> SyncError? {
        let handler = handler
        return try? await channel.eventLoop.submit { handler.value.failure }.get()
    }

    private func onLoop(_ body: @escaping @Sendable (LinkHandler) -> Void) {
        let handler = handler
        if channel.eventLoop.inEventLoop { return body(handler.value) }
        channel.eventLoop.execute { body(handler.value) }
    }
}
