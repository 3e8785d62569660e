import Glibc
import TestSupport

/// Every job of Swift's concurrency, on one thread and in an order drawn from the seed.
///
/// The runtime hands each job that has no executor of its own (tasks, actors, resumed continuations) to
/// `swift_task_enqueueGlobal_hook`. So what the shipped code does in tasks and actors happens here, between
/// two events of the simulated world, and alike every time. The hook is the process's: no simulation runs
/// in a process that does anything else.
enum Jobs {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    private final class Inline: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) { Jobs.add(UnownedJob(job)) }
    }

    // A job can only be enqueued by another job, or by the simulation between two of them; `add` checks it.
    nonisolated(unsafe) private static var ready: [UnownedJob] = []  // one thread
    nonisolated(unsafe) private static var generator = SplitMix64(seed: 0)  // one thread
    nonisolated(unsafe) private(set) static var count: UInt64 = 0  // one thread
    private static let executor = Inline()
    private static let thread = pthread_self()

    /// From here on every job waits for `drain`.
    static func capture() {
        _ = thread
        guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "swift_task_enqueueGlobal_hook") else {
            fatalError("this Swift runtime has no swift_task_enqueueGlobal_hook")
        }
        symbol.assumingMemoryBound(to: Hook?.self).pointee = { job, _ in Jobs.add(job) }
    }

    /// The order of jobs from here on.
    static func reseed(_ seed: UInt64) {
        precondition(ready.isEmpty, "a world ended with jobs left")
        generator = SplitMix64(seed: seed)
        count = 0
    }

    private static func add(_ job: UnownedJob) {
        precondition(pthread_equal(thread, pthread_self()) != 0, "a job comes from another thread")
        ready.append(job)
    }

    /// Runs jobs until none is left: everything waits for the simulated world then.
    static func drain() {
        while !ready.isEmpty {
            let place = ready.count == 1 ? 0 : generator.below(ready.count)
            let job = ready.remove(at: place)
            count += 1
            job.runSynchronously(on: executor.asUnownedTaskExecutor())
        }
    }
}
