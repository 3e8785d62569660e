import Dispatch
import Synchronization

/// Does on a thread of the usual priority what may begin further threads. `jobs` has the lock.
///
/// A thread begins with the priority of the one that begins it, and without privileges nobody raises it
/// again. Dispatch begins its threads on the one that gives it work, so a task that a lowered thread resumed
/// would lower a thread on which everybody's tasks run.
final class Herald: Sendable {
    /// Begun before the first thread is lowered.
    static let shared = Herald()

    private let jobs = Mutex<[@Sendable () -> Void]>([])
    private let bell = DispatchSemaphore(value: 0)

    private init() {
        WorkerThread.start("herald") { [self] in
            while true {
                bell.wait()
                jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }?()
            }
        }
    }

    /// Runs a job soon.
    func run(_ job: @escaping @Sendable () -> Void) {
        jobs.withLock { $0.append(job) }
        bell.signal()
    }
}
