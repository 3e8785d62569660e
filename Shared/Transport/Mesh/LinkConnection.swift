import Exchange
import NIOCore
import NIOSSL
import NIOTLS
import Sync
import Synchronization

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

/// Looks at the first byte of the other side: a record of TLS begins with 16h, a frame's length with 00h. So
/// two ends of which only one speaks TLS part with a reason instead of a failed handshake.
final class FirstByteHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let tlsRecord: UInt8 = 0x16
    private static let frame: UInt8 = 0x00

    private let speaksTLS: Bool
    private var hasParted = false

    init(speaksTLS: Bool) { self.speaksTLS = speaksTLS }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasParted else { return }
        let bytes = unwrapInboundIn(data)
        // An alert of TLS, 15h, answers a greeting that the other side could not take.
        guard let first = bytes.getInteger(at: bytes.readerIndex, as: UInt8.self),
            first == (speaksTLS ? Self.frame : Self.tlsRecord)
        else {
            context.fireChannelRead(data)
            return context.pipeline.syncOperations.removeHandler(self, promise: nil)
        }
        hasParted = true
        let reason = SyncError(
            .securityMismatch,
            speaksTLS
                ? "this peer speaks TLS, and the other side does not: only this one has a key or a login"
                : "the other side speaks TLS, and this peer does not: only the other has a key or a login")
        // In the clear: a side that speaks so reads it, the other sees that it is no TLS.
        let answer = FrameReader.bytes(of: Frame.close(reason).encoded(), context.channel.allocator)
        context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
        context.fireErrorCaught(reason)
    }
}

/// Frames and signs of life of a link, at the end of its pipeline. The event loop guards its state.
final class LinkHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let ready: EventLoopPromise<Void>
    private(set) var failure: SyncError?
    private let verdict: LinkTLS.Verdict
    private let times: LinkConnection.Times
    private let isSecure: Bool

    private var context: ChannelHandlerContext?
    private var timer: RepeatedTask?
    private var isReady = false
    private var isOver = false
    private var hasHeard = false
    private var hasSpoken = false
    private var silence = Duration.zero
    private var reader = FrameReader()
    private var frames = CircularBuffer<[UInt8]>(initialCapacity: 1)
    private var frameBytes = 0
    private var arrived: (@Sendable (FrameArrival) -> Void)?
    private var isBusy = false
    private var isDelivering = false
    private var isReadPaused = false
    private var hasToldEnd = false

    init(
        _ ready: EventLoopPromise<Void>, _ verdict: LinkTLS.Verdict, _ times: LinkConnection.Times,
        isSecure: Bool
    ) {
        self.ready = ready
        self.verdict = verdict
        self.times = times
        self.isSecure = isSecure
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if !isSecure, context.channel.isActive { becomeReady(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { over() }

    func channelActive(context: ChannelHandlerContext) {
        if !isSecure { becomeReady(context) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        over()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let chosen)? = event as? TLSUserEvent {
            if chosen == LinkSecurity.applicationProtocol {
                becomeReady(context)
            } else {
                fail(SyncError(.versionMismatch, "the other side does not speak the protocol of links"))
            }
        }
        if event as? ChannelEvent == .inputClosed { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(verdict.refusal ?? (error as? SyncError) ?? Self.reason(error))
    }

    private static func reason(_ error: any Error) -> SyncError {
        let text = "\(error)"
        // BoringSSL's names of the alerts that tell a refused certificate.
        let isRefusal = text.contains("ALERT") && text.contains("CERTIFICATE")
        guard isRefusal else { return SyncError(.unavailable, "the connection failed: \(text.prefix(200))") }
        return SyncError(code: "AUTH-0306", message: "the other side does not accept this peer's certificate")
    }

    private func becomeReady(_ context: ChannelHandlerContext) {
        guard !isReady else { return }
        isReady = true
        let interval = TimeAmount.nanoseconds(times.pingInterval.nanoseconds)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
            bound.value.tick()
        }
        ready.succeed(())
    }

    private func tick() {
        guard !isOver, let context else { return }
        // A side whose frames wait does not count as silent: then this one lags.
        silence = hasHeard || !frames.isEmpty || isReadPaused ? .zero : silence + times.pingInterval
        hasHeard = false
        if silence >= times.patience {
            over()
            return context.close(promise: nil)
        }
        if !hasSpoken, context.channel.isWritable {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(integer: UInt32(0))), promise: nil)
        }
        hasSpoken = false
    }

    /// The other side broke a rule, or the handshake failed.
    private func fail(_ error: SyncError) {
        failure = failure ?? error
        over()
        context?.close(promise: nil)
    }

    private func over() {
        guard !isOver else { return }
        isOver = true
        timer?.cancel()
        timer = nil
        if !isReady {
            ready.fail(failure ?? verdict.refusal ?? SyncError(.unavailable, "the connection was closed"))
        }
        deliver()
    }

    // MARK: Reading

    func read(context: ChannelHandlerContext) {
        isReadPaused = isFull
        if !isReadPaused { context.read() }
    }

    private var isFull: Bool {
        !hasToldEnd && (frames.count >= Limits.unreadFrames || frameBytes >= Limits.unreadBytes)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        hasHeard = true
        do {
            try reader.take(unwrapInboundIn(data)) { frame in
                frames.append(frame)
                frameBytes += frame.count
            }
        } catch {
            return fail(error)
        }
        deliver()
    }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        self.arrived = arrived
        deliver()
    }

    /// Nothing is handed over any more.
    func discard() {
        hasToldEnd = true
        arrived = { _ in }
        frames.removeAll()
        frameBytes = 0
        isBusy = true
        resumeReading()
    }

    /// Hands over frames one at a time. `taken` may be called within `arrived`: calls do not nest.
    private func deliver() {
        guard !isDelivering, let arrived else { return }
        isDelivering = true
        defer { isDelivering = false }
        while !isBusy, let frame = frames.popFirst() {
            frameBytes -= frame.count
            isBusy = true
            arrived(.frame(frame, taken: taken))
        }
        if isOver, !isBusy, frames.isEmpty, !hasToldEnd {
            hasToldEnd = true
            arrived(.ended)
        }
        resumeReading()
    }

    private var taken: @Sendable () -> Void {
        guard let loop = context?.eventLoop else { return {} }
        let bound = NIOLoopBound(self, eventLoop: loop)
        return {
            if loop.inEventLoop {
                bound.value.wasTaken()
            } else {
                loop.execute { bound.value.wasTaken() }
            }
        }
    }

    private func wasTaken() {
        guard !hasToldEnd else { return }
        isBusy = false
        deliver()
    }

    private func resumeReading() {
        guard isReadPaused, !isFull, let context, !isOver else { return }
        isReadPaused = false
        context.read()
    }

    // MARK: Writing

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        hasSpoken = true
        context.write(data, promise: promise)
    }
}
