import Synchronization

/// Runs tasks on the caller's thread, one step at a time and in an order drawn from a seed. A step ends where
/// the task waits, so a task that was resumed runs after any number of steps of others: between its wake and
/// its next look everything may have changed.
public final class ShuffledTasks: TaskExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var paused: [CheckedContinuation<Void, Never>] = []
        var generator: SplitMix64
    }

    private enum Step {
        case job(UnownedJob)
        case end(CheckedContinuation<Void, Never>)
    }

    private let state: Mutex<State>

    /// An order of steps.
    public init(seed: UInt64) { state = Mutex(State(generator: SplitMix64(seed: seed))) }

    /// See `TaskExecutor`.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
    }

    /// A number from 0 up to and without `bound`.
    public func below(_ bound: Int) -> Int { state.withLock { $0.generator.below(bound) } }

    /// Lets others go on, up to three times.
    public func pause() async {
        for _ in 0..<below(4) {
            await withCheckedContinuation { continuation in
                state.withLock { $0.paused.append(continuation) }
            }
        }
    }

    /// Begins a task, which runs in `run`.
    public func begin(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: self, operation: body)
    }

    /// Runs steps until there is none: each task has ended, or waits for nobody.
    public func run() {
        while let step = state.withLock({ Self.next(&$0) }) {
            switch step {
            case .job(let job): job.runSynchronously(on: asUnownedTaskExecutor())
            case .end(let continuation): continuation.resume()
            }
        }
    }

    private static func next(_ state: inout State) -> Step? {
        let count = state.jobs.count + state.paused.count
        guard count > 0 else { return nil }
        let place = state.generator.below(count)
        guard place >= state.jobs.count else { return .job(state.jobs.remove(at: place)) }
        return .end(state.paused.remove(at: place - state.jobs.count))
    }
}
