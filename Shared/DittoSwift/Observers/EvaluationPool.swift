import Dispatch
import Synchronization

/// Runs the queries of observers, in the order they came, so many at a time: each may hold a whole result,
/// and more threads than cores gain nothing.
///
/// Invariant: `running` counts the workers, none of which is idle; whoever waits is started by a worker.
final class EvaluationPool: Sendable {
    private struct State {
        var running = 0
        var waiting: [@Sendable () -> Void] = []
        /// Where the next one to run stands in `waiting`.
        var first = 0
    }

    static let queue = DispatchQueue(label: "ditto.evaluations", attributes: .concurrent)
    private let state = Mutex(State())
    private let width: @Sendable () -> Int

    /// A pool; `width` says how many may run now.
    init(width: @escaping @Sendable () -> Int) { self.width = width }

    /// Runs `work` as soon as it is its turn.
    func submit(_ work: @escaping @Sendable () -> Void) {
        let width = max(1, width())
        let starts = state.withLock { state in
            state.waiting.append(work)
            guard state.running < width else { return false }
            state.running += 1
            return true
        }
        if starts { Self.queue.async { self.drain() } }
    }

    private func drain() {
        while let work = next() { work() }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard state.first < state.waiting.count else {
                state.waiting = []
                state.first = 0
                state.running -= 1
                return nil
            }
            let work = state.waiting[state.first]
            state.first += 1
            // Lets go of what has run now and then, without moving the rest each time.
            if state.first >= 64, state.first * 2 > state.waiting.count {
                state.waiting.removeFirst(state.first)
                state.first = 0
            }
            return work
        }
    }
}
