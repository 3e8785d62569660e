import ServiceKit
import Transport

/// A session's channel whose frames are paid for. While the limits of its database or user are in debt, the
/// peer's next frame is taken later, and a frame counts as sent later: uploads wait at the peer, and pages
/// here. Nothing is refused, and nothing lost.
final class MeteredChannel: FrameChannel {
    private let inner: any FrameChannel
    private let pay: @Sendable (_ bytes: Int) -> Duration
    private let pauses: PaidPauses

    /// - Parameter pay: pays for bytes; the time until the limits have taken them.
    init(
        _ inner: any FrameChannel, time: PaidPauses.Time = .system,
        pay: @escaping @Sendable (_ bytes: Int) -> Duration
    ) { (self.inner, self.pay, pauses) = (inner, pay, PaidPauses(time)) }

    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        inner.begin { [pay, pauses] arrival in
            guard case .frame(let frame, let taken) = arrival, let end = pauses.end(of: pay(frame.count))
            else { return arrived(arrival) }
            arrived(.frame(frame) { pauses.wait(until: end, taken) })
        }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        guard let end = pauses.end(of: pay(frame.count)) else { return inner.post(frame, whenSent: whenSent) }
        inner.post(frame) { [pauses] isSent in
            guard isSent else { return whenSent(false) }
            pauses.wait(until: end) { whenSent(true) }
        }
    }

    func nearby(_ work: @escaping @Sendable () -> Void) { inner.nearby(work) }

    func end(code: UInt16, reason: String) async {
        // Before the channel, which may wait until its last frame was taken.
        pauses.finish()
        await inner.end(code: code, reason: reason)
    }
}
