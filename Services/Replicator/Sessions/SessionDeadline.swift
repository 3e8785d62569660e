import Machine
import ServiceKit
import Synchronization

/// Ends a session at a time, when its token expires say, which may be put off.
///
/// `state` guards what the watch knows it by; it is never held across a wait.
final class SessionDeadline: Sendable {
    private struct State {
        /// The watch's number for the session, while it runs.
        var number: UInt64?
        /// The closure that ends the session, while it runs.
        var end: DeadlineWatch.End?
    }

    private let watch: DeadlineWatch
    private let state = Mutex(State())

    init(_ watch: DeadlineWatch) { self.watch = watch }

    /// The session has begun; `end` is to end it.
    func begin(_ atSeconds: Int64, end: @escaping DeadlineWatch.End) {
        state.withLock { $0.end = end }
        set(atSeconds)
    }

    /// The session ends at this time, whatever was said before.
    func set(_ atSeconds: Int64) {
        state.withLock { state in
            guard let end = state.end else { return }
            if let number = state.number { watch.forget(number) }
            state.number = watch.note(atSeconds, end)
        }
    }

    /// The session is over.
    func cancel() {
        state.withLock { state in
            if let number = state.number { watch.forget(number) }
            state = State()
        }
    }
}

/// Watches over the ends of all sessions, with one task, while there are any: ten thousand tasks that sleep
/// would cost more than the sessions.
///
/// `state` guards everything; nobody is told under it.
final class DeadlineWatch: Sendable {
    typealias End = @Sendable () -> Void

    /// Where the time comes from.
    struct Clock: Sendable {
        /// Seconds since 1970.
        let nowSeconds: @Sendable () -> Int64
        /// Waits about a second; may end early.
        let pause: @Sendable () async -> Void
    }

    private struct State {
        var last: UInt64 = 0
        var ends: [UInt64: (atSeconds: Int64, end: End)] = [:]
        var isWatching = false
    }

    private let clock: Clock
    private let state = Mutex(State())

    init(clock: Clock) { self.clock = clock }

    /// Calls `end` once the time has come; the number is for `forget`.
    func note(_ atSeconds: Int64, _ end: @escaping End) -> UInt64 {
        let (number, begins) = state.withLock { state in
            state.last += 1
            state.ends[state.last] = (atSeconds, end)
            defer { state.isWatching = true }
            return (state.last, !state.isWatching)
        }
        if begins { Task { await watch() } }
        return number
    }

    /// The time does not matter any more; false where it has come already.
    @discardableResult
    func forget(_ number: UInt64) -> Bool {
        state.withLock { $0.ends.removeValue(forKey: number) != nil }
    }

    private func watch() async {
        while true {
            let now = clock.nowSeconds()
            let due = state.withLock { state -> [End]? in
                guard !state.ends.isEmpty else {
                    state.isWatching = false
                    return nil
                }
                let due = state.ends.filter { $0.value.atSeconds <= now }
                for number in due.keys { state.ends[number] = nil }
                return due.values.map(\.end)
            }
            guard let due else { return }
            for end in due { end() }
            await clock.pause()
        }
    }
}

extension DeadlineWatch.Clock {
    /// The system's.
    static let system = Self(
        nowSeconds: SystemClock.seconds, pause: { try? await Task.sleep(for: .seconds(1)) })
}
