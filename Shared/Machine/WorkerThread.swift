import Foundation

/// Threads for work that computes for long: of their own, so that they take none of Dispatch's, on which
/// everything else runs.
public enum WorkerThread {
    /// Bytes of a worker's stack: as much as the main thread's; only what is touched takes memory.
    private static let stackBytes = 8 << 20

    /// Starts a thread that runs `body` and ends.
    public static func start(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let thread = Thread {
            setOwnName(name)
            body()
        }
        thread.stackSize = stackBytes
        thread.start()
    }

    private static func setOwnName(_ name: String) {
        #if os(Linux)
            // `Thread` forgets a name that is set before its creator has the thread's handle. This one asks
            // nobody: the file of the calling thread.
            let file = FileHandle(forWritingAtPath: "/proc/thread-self/comm")
            try? file?.write(contentsOf: Data(name.utf8.prefix(15)))
        #else
            Thread.current.name = name
        #endif
    }

    /// The times that this thread has waited for a disk, with its identity; zero where the system does not
    /// count them.
    public static func diskReads() -> (thread: UInt, count: Int) {
        #if canImport(Glibc)
            var usage = rusage()
            // `RUSAGE_THREAD`, which the headers show to others only.
            guard getrusage(1, &usage) == 0 else { return (UInt(pthread_self()), 0) }
            return (UInt(pthread_self()), usage.ru_majflt + usage.ru_inblock)
        #else
            return (0, 0)
        #endif
    }

    /// The time that the calling thread has had a processor since its start.
    public static var processorTime: Duration {
        var time = timespec()
        guard clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return .zero }
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }

    /// Lets the threads of all other work come before the calling one, for the rest of its life: a process
    /// without privileges cannot raise a priority again. Does nothing where threads have no priority of
    /// their own.
    public static func lowerPriority() {
        #if os(Linux)
            _ = Herald.shared
            pthread_setspecific(mark, UnsafeRawPointer(bitPattern: 1))
            // Here `0` is the calling thread, not its process. A failure leaves the priority as it was.
            _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
        #endif
    }

    /// Runs a job that may begin further threads, such as one that resumes a task or gives work to Dispatch:
    /// here, unless the calling thread is lowered; then soon, on one of the usual priority.
    public static func atUsualPriority(_ job: @escaping @Sendable () -> Void) {
        if isLowered { Herald.shared.run(job) } else { job() }
    }

    #if os(Linux)
        /// The key of each thread's mark that it is lowered.
        private static let mark: pthread_key_t = {
            var key = pthread_key_t()
            pthread_key_create(&key, nil)
            return key
        }()

        static var isLowered: Bool { pthread_getspecific(mark) != nil }
    #else
        static var isLowered: Bool { false }
    #endif
}
