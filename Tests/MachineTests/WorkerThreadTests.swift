import Dispatch
import Synchronization
import Testing

@testable import Machine

@Suite("Threads of low priority")
struct WorkerThreadTests {
    /// Runs a task's steps on a queue, and notes for each whether a lowered thread has asked for it.
    private final class Probe: TaskExecutor {
        let askedByLowered = Mutex<[Bool]>([])
        /// Given when the first step has ended.
        let hasBegun = PendingAnswer<Void>()
        private let queue = DispatchQueue(label: "probe")

        func enqueue(_ job: consuming ExecutorJob) {
            askedByLowered.withLock { $0.append(WorkerThread.isLowered) }
            let job = UnownedJob(job)
            queue.async {
                job.runSynchronously(on: self.asUnownedTaskExecutor())
                self.hasBegun.give(())
            }
        }
    }

    @Test("a thread that is not lowered does itself what may begin others, and a lowered one does not")
    func usualPriority() async {
        for isLowered in [false, true] {
            let answer = PendingAnswer<[Bool]>()
            WorkerThread.start("test") {
                if isLowered { WorkerThread.lowerPriority() }
                let (before, thread) = (WorkerThread.isLowered, WorkerThread.diskReads().thread)
                WorkerThread.atUsualPriority {
                    answer.give([
                        before, WorkerThread.isLowered, WorkerThread.diskReads().thread == thread,
                    ])
                }
            }
            #expect(await answer.value() == [isLowered, false, !isLowered])
        }
    }

    @Test("a lowered thread resumes no task: Dispatch would begin a thread of low priority for it")
    func answers() async {
        let (probe, answer) = (Probe(), PendingAnswer<Int>())
        let task = Task(executorPreference: probe) { await answer.value() }
        await probe.hasBegun.value()
        WorkerThread.start("test") {
            WorkerThread.lowerPriority()
            answer.give(7)
        }
        #expect(await task.value == 7)
        #expect(probe.askedByLowered.withLock { $0 } == [false, false])
    }
}
