import Machine
import Synchronization

/// The pauses of one channel's frames in debt, in their order, with one timer for all.
///
/// A frame waits no longer than `Limits.longestPaidPause`, and not beyond the channel's end. The oldest of
/// more than `Limits.pausedFrames` goes on early. Time is the continuous clock's: a clock that is set moves
/// nothing.
///
/// `state` guards everything; nobody is told under it. Invariants: the times of `waiting` do not fall; while
/// somebody waits a timer runs, and one runs at most.
final class PaidPauses: Sendable {
    /// Where the time comes from.
    struct Time: Sendable {
        let now: @Sendable () -> ContinuousClock.Instant
        /// Calls a body once after a time, while the timer is kept.
        let ring: @Sendable (_ after: Duration, _ body: @escaping @Sendable () -> Void) -> Alarm?
    }

    private struct State {
        var waiting: [(until: ContinuousClock.Instant, body: @Sendable () -> Void)] = []
        var timer: Alarm?
        var isEnded = false
    }

    private let time: Time
    private let state = Mutex(State())

    init(_ time: Time) { self.time = time }

    /// The time until which a debt pauses a frame; nil without one.
    func end(of debt: Duration) -> ContinuousClock.Instant? {
        debt > .zero ? time.now() + min(debt, Limits.longestPaidPause) : nil
    }

    /// Calls a body at a time, and after those that wait; at once if it has come, or after the end.
    func wait(until end: ContinuousClock.Instant, _ body: @escaping @Sendable () -> Void) {
        let now = time.now()
        let early = state.withLock { state -> (@Sendable () -> Void)? in
            guard !state.isEnded, end > now || !state.waiting.isEmpty else { return body }
            state.waiting.append((max(end, state.waiting.last?.until ?? end), body))
            if state.waiting.count == 1 { start(&state, now) }
            return state.waiting.count > Limits.pausedFrames ? state.waiting.removeFirst().body : nil
        }
        early?()
    }

    /// Ends all pauses, and those that would begin.
    func finish() {
        let waiting = state.withLock { state in
            defer { state = State(isEnded: true) }
            return state.waiting
        }
        for (_, body) in waiting { body() }
    }

    private func ring() {
        let now = time.now()
        let due = state.withLock { state in
            let due = state.waiting.prefix { $0.until <= now }.map(\.body)
            state.waiting.removeFirst(due.count)
            if state.waiting.isEmpty { state.timer = nil } else { start(&state, now) }
            return due
        }
        for body in due { body() }
    }

    /// Starts the timer for the first one that waits; those that end soon after it share the next.
    private func start(_ state: inout State, _ now: ContinuousClock.Instant) {
        let pause = max(state.waiting[0].until - now, Limits.leastPaidPause)
        state.timer = time.ring(pause) { [weak self] in self?.ring() }
    }
}

extension PaidPauses.Time {
    /// The system's.
    static let system = Self(now: { .now }, ring: { Alarm(after: $0, $1) })
}
