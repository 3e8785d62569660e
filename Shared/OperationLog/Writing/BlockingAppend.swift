import CRDT
import Dispatch
import Machine

extension OperationLog {
    /// Waits for `append`, which runs on a thread of its own: those of the cooperative pool may all be busy,
    /// or wait for the caller.
    public func appendBlocking(
        _ requests: [AppendRequest], to database: DatabaseID
    ) throws -> [AppendOutcome] {
        let answer = PendingAnswer<Result<[AppendOutcome], any Error>>()
        Task(executorPreference: AppendExecutor()) {
            do {
                answer.give(.success(try await append(requests, to: database)))
            } catch {
                answer.give(.failure(error))
            }
        }
        return try answer.wait().get()
    }
}

/// Runs one task, step by step. Dispatch gives a serial queue a thread at once, and a concurrent one only as
/// many as there are cores, and one more in each second in which they are blocked.
private final class AppendExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "mimeo.operation-log.blocking")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
