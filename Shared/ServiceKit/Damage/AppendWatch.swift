import Synchronization

/// The changes that wait for their commit, to tell how old the oldest is, and how long the last ones took.
/// `state` guards everything.
final class AppendWatch: Sendable {
    private struct State {
        var next: UInt64 = 0
        var waiting: [UInt64: ContinuousClock.Instant] = [:]
        /// The last `Limits.paceChanges` that were stored, oldest first. Each began after the one before it
        /// had ended: what waited for the same stall is one.
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

    /// Notes that it has ended.
    /// - Parameter isStored: false for a failed one, whose time tells nothing about the storage.
    func end(_ number: UInt64, isStored: Bool) {
        let now = now()
        state.withLock { state in
            guard let began = state.waiting.removeValue(forKey: number), isStored else { return }
            let took = now - began
            if let last = state.ended.last {
                guard began >= last.at else {
                    // `at` stays: calls that overlap in turns are not one for ever.
                    state.ended[state.ended.count - 1].took = min(last.took, took)
                    return
                }
                if began - last.at >= Limits.paceWindow { state.ended = [] }
            }
            state.ended.append((now, took))
            if state.ended.count > Limits.paceChanges { state.ended.removeFirst() }
        }
    }

    /// The age of the oldest; zero while none waits.
    var age: Duration {
        let oldest = state.withLock { $0.waiting.values.min() }
        return oldest.map { now() - $0 } ?? .zero
    }

    /// The time of the fastest of the last `Limits.paceChanges`; nil while there are fewer without a pause of
    /// `Limits.paceWindow`. A queue or a busy machine makes some slow, only the storage all of them.
    var pace: Duration? {
        let now = now()
        return state.withLock { state in
            guard state.ended.count == Limits.paceChanges,
                let last = state.ended.last, now - last.at < Limits.paceWindow
            else { return nil }
            return state.ended.map(\.took).min()
        }
    }
}
