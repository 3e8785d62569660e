import Dispatch
import Synchronization

/// Runs the queries of observers in order of arrival, a limited number at a time: each may hold a whole
/// result, and more threads than cores gain nothing.
///
/// Each worker has a serial queue of its own, for which Dispatch always has a thread. A concurrent queue
/// gets only one more thread per second while others are blocked, for example by the application.
///
/// Invariant: `running` counts the workers, and none of them is idle; a worker starts the next waiting job.
/// `free` holds no queue of a running worker.
final class EvaluationPool: Sendable {
    private struct State {
        var running = 0
        var waiting: [@Sendable () -> Void] = []
        /// The index in `waiting` of the next job.
        var first = 0
        var free: [DispatchQueue] = []
    }

    /// The queue of the observers' timers.
    static let clock = DispatchQueue(label: "ditto.observers.clock")
    private let state = Mutex(State())
    private let width: @Sendable () -> Int

    /// A pool; `width` returns the present maximum of running jobs.
    init(width: @escaping @Sendable () -> Int) { self.width = width }

    /// Runs `work` when its turn comes.
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
            // Removes finished jobs now and then, without moving the rest each time.
            if state.first >= 64, state.first * 2 > state.waiting.count {
                state.waiting.removeFirst(state.first)
                state.first = 0
            }
            return work
        }
    }
}
