import Dispatch
import Synchronization

/// Runs the queries of observers, in the order they came, so many at a time: each may hold a whole result,
/// and more threads than cores gain nothing.
///
/// Each worker has a serial queue of its own, which Dispatch always has a thread for: a concurrent one gets
/// one more thread a second where others are blocked, be it by the application.
///
/// Invariant: `running` counts the workers, none of which is idle; whoever waits is started by a worker. No
/// queue of a worker that runs is in `free`.
final class EvaluationPool: Sendable {
    private struct State {
        var running = 0
        var waiting: [@Sendable () -> Void] = []
        /// Where the next one to run stands in `waiting`.
        var first = 0
        var free: [DispatchQueue] = []
    }

    /// Where timers of observers ring.
    static let clock = DispatchQueue(label: "ditto.observers.clock")
    private let state = Mutex(State())
    private let width: @Sendable () -> Int

    /// A pool; `width` says how many may run now.
    init(width: @escaping @Sendable () -> Int) { self.width = width }

    /// Runs `work` as soon as it is its turn.
    func submit(_ work: @escaping @Sendable () -> Void) {
        let width = max(1, width())
        let worker: DispatchQueue? = state.withLock { state in
            state.waiting.append(work)
            guard state.running < width else { return nil }
            state.running += 1
            return state.free.popLast() ?? DispatchQueue(label: "ditto.evaluations")
        }
        if let worker { worker.async { self.drain(worker) } }
    }

    private func drain(_ worker: DispatchQueue) {
        while let work = next(worker) { work() }
    }

    private func next(_ worker: DispatchQueue) -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard state.first < state.waiting.count else {
                state.waiting = []
                state.first = 0
                state.running -= 1
                state.free.append(worker)
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
