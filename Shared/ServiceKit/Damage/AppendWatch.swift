import Synchronization

/// The appends that wait for their commit, to tell how old the oldest is. `state` guards everything.
final class AppendWatch: Sendable {
    private struct State {
        var next: UInt64 = 0
        var waiting: [UInt64: ContinuousClock.Instant] = [:]
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> ContinuousClock.Instant

    init(now: @escaping @Sendable () -> ContinuousClock.Instant) { self.now = now }

    /// Notes that an append begins.
    func begin() -> UInt64 {
        let now = now()
        return state.withLock { state in
            state.next += 1
            state.waiting[state.next] = now
            return state.next
        }
    }

    /// Notes that it has ended, however it did.
    func end(_ number: UInt64) { state.withLock { _ = $0.waiting.removeValue(forKey: number) } }

    /// The age of the oldest; zero while none waits.
    var age: Duration {
        let oldest = state.withLock { $0.waiting.values.min() }
        return oldest.map { now() - $0 } ?? .zero
    }
}
