import Exchange
import NIOCore
import NIOTLS
import Sync
import WebSocket

/// Frames and signs of life of a link, at the end of its pipeline: does what `DeliveryMachine` decides about
/// frames and their reader. The event loop guards its state.
final class LinkHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Life {
        /// The connection, or its TLS, is being set up.
        case connecting
        /// Frames pass; the timer looks for signs of life.
        case ready(RepeatedTask)
        case over
    }

    let ready: EventLoopPromise<Void>
    private(set) var failure: SyncError?
    private let verdict: LinkTLS.Verdict
    private let times: LinkConnection.Times
    private let isSecure: Bool

    private var context: ChannelHandlerContext?
    private var life = Life.connecting
    private var signs = SignsOfLife()
    private var reader = FrameReader()
    private var delivery = DeliveryMachine<@Sendable (FrameArrival) -> Void, Void>(
        limit: .init(messages: Limits.unreadFrames, bytes: Limits.unreadBytes))

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
        guard case .connecting = life else { return }
        let interval = TimeAmount.nanoseconds(times.pingInterval.nanoseconds)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        life = .ready(
            context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
                bound.value.tick()
            })
        ready.succeed(())
    }

    private func tick() {
        guard !isOver, let context else { return }
        // A side whose frames wait does not count as silent: then this one lags.
        let lags = delivery.isUnread || delivery.isReadPaused
        let (silence, owesSign) = signs.passed(times.pingInterval, lags: lags)
        if silence >= times.patience {
            over()
            return context.close(promise: nil)
        }
        if owesSign, context.channel.isWritable {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(integer: UInt32(0))), promise: nil)
        }
    }

    private var isOver: Bool { if case .over = life { true } else { false } }

    /// The other side broke a rule, or the handshake failed.
    private func fail(_ error: SyncError) {
        failure = failure ?? error
        over()
        context?.close(promise: nil)
    }

    private func over() {
        switch life {
        case .over: return
        case .ready(let timer): timer.cancel()
        case .connecting:
            ready.fail(failure ?? verdict.refusal ?? SyncError(.unavailable, "the connection was closed"))
        }
        life = .over
        delivery.ends(())
        deliver()
    }

    // MARK: Reading

    func read(context: ChannelHandlerContext) { if !delivery.pausesReading() { context.read() } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        signs.heard()
        do {
            try reader.take(unwrapInboundIn(data)) { delivery.arrived($0) }
        } catch {
            return fail(error)
        }
        deliver()
    }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        delivery.begin(arrived)
        deliver()
    }

    /// Nothing is handed over any more.
    func discard() {
        _ = delivery.discard()
        deliver()
    }

    /// Does what the delivery has to do. `taken` may be called within `arrived`: calls do not nest.
    private func deliver() {
        guard delivery.beginDelivering() else { return }
        while let next = delivery.next() {
            switch next {
            case .message(let frame, let arrived): arrived(.frame(frame, taken: taken))
            case .end(_, let arrived): arrived(.ended)
            case .resumeReading: if !isOver { context?.read() }
            }
        }
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
        delivery.taken()
        deliver()
    }

    // MARK: Writing

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        signs.spoke()
        context.write(data, promise: promise)
    }
}

/// The signs of life of both sides since the last look.
private struct SignsOfLife {
    private var hasHeard = false
    private var hasSpoken = false
    /// The time since the other side was heard.
    private var silence = Duration.zero

    mutating func heard() { hasHeard = true }
    mutating func spoke() { hasSpoken = true }

    /// An interval has passed.
    /// - Parameter lags: true if this side has not read what the other has sent.
    /// - Returns: how long the other side has been silent, and whether this side owes a sign of life.
    mutating func passed(_ interval: Duration, lags: Bool) -> (silence: Duration, owesSign: Bool) {
        silence = hasHeard || lags ? .zero : silence + interval
        let owesSign = !hasSpoken
        hasHeard = false
        hasSpoken = false
        return (silence, owesSign)
    }
}
