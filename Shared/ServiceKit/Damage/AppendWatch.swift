import Synchronization

/// The changes that wait for their commit, to tell how old the oldest is, and how long the last ones took.
/// `state` guards everything.
final class AppendWatch: Sendable {
    private struct State {
        var next: UInt64 = 0
        var waiting: [UInt64: ContinuousClock.Instant] = [:]
        /// The last `Limits.paceChanges`, oldest first.
        var ended: [(at: ContinuousClock.Instant, took: Duration)] = []
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
    func end(_ number: UInt64) {
        let now = now()
        state.withLock { state in
            guard let began = state.waiting.removeValue(forKey: number) else { return }
            state.ended.append((now, now - began))
            if state.ended.count > Limits.paceChanges { state.ended.removeFirst() }
        }
    }

    /// The age of the oldest; zero while none waits.
    var age: Duration {
        let oldest = state.withLock { $0.waiting.values.min() }
        return oldest.map { now() - $0 } ?? .zero
    }

    /// The time of the fastest of the last `Limits.paceChanges`; nil if they are not all of the last
    /// `Limits.paceWindow`. A queue or a busy machine makes some slow, only the storage all of them.
    var pace: Duration? {
        let now = now()
        return state.withLock { state in
            guard state.ended.count == Limits.paceChanges,
                let first = state.ended.first, now - first.at <= Limits.paceWindow
            else { return nil }
            return state.ended.map(\.took).min()
        }
    }
}
