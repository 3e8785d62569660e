import ServiceKit
import Transport

/// A session's channel whose frames are paid for. While the limits of its database or user are in debt, the
/// peer's next frame is taken later, and a frame counts as sent later: uploads wait at the peer, and pages
/// here. Nothing is refused, and nothing lost.
final class MeteredChannel: FrameChannel {
    private let inner: any FrameChannel
    private let pay: @Sendable (_ bytes: Int) -> Duration
    private let wait: @Sendable (_ seconds: Int64, _ body: @escaping @Sendable () -> Void) -> Void

    /// - Parameters:
    ///   - pay: pays for bytes; the time until the limits have taken them.
    ///   - wait: calls a body after some seconds.
    init(
        _ inner: any FrameChannel, pay: @escaping @Sendable (_ bytes: Int) -> Duration,
        wait: @escaping @Sendable (_ seconds: Int64, _ body: @escaping @Sendable () -> Void) -> Void
    ) { (self.inner, self.pay, self.wait) = (inner, pay, wait) }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        inner.begin { [pay, wait] arrival in
            guard case .frame(let frame, let taken) = arrival, let pause = Self.pause(pay(frame.count)) else {
                return arrived(arrival)
            }
            arrived(.frame(frame) { wait(pause, taken) })
        }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        guard let pause = Self.pause(pay(frame.count)) else { return inner.post(frame, whenSent: whenSent) }
        inner.post(frame) { [wait] isSent in
            guard isSent else { return whenSent(false) }
            wait(pause) { whenSent(true) }
        }
    }

    func nearby(_ work: @escaping @Sendable () -> Void) { inner.nearby(work) }

    func end(code: UInt16, reason: String) async { await inner.end(code: code, reason: reason) }

    /// Whole seconds; nil for none.
    private static func pause(_ debt: Duration) -> Int64? {
        guard debt > .zero else { return nil }
        let longest = Limits.longestPaidPause
        return min(debt, longest).components.seconds + (debt < longest ? 1 : 0)
    }
}
