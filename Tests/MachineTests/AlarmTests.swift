import Machine
import Synchronization
import Testing

@Suite("An alarm", .timeLimit(.minutes(5)))
struct AlarmTests {
    @Test("each alarm rings, also one for no time or for less")
    func rings() async {
        let rung = Monitor<Set<Int>>([])
        let alarms = [2, 0, -5].map { time in
            Alarm(after: .milliseconds(time)) { rung.change { _ = $0.insert(time) } }
        }
        await rung.wait { $0 == [2, 0, -5] }
        alarms.forEach { $0.cancel() }
    }

    @Test("an alarm that was cancelled or forgotten never rings, and lets go of what it holds")
    func cancelled() async {
        final class Held: Sendable {}
        let rung = Monitor<[String]>([])
        weak var held: Held?
        let cancelled: Alarm
        do {
            let object = Held()
            held = object
            cancelled = Alarm(after: .milliseconds(20)) { rung.change { $0.append("cancelled \(object)") } }
            _ = Alarm(after: .milliseconds(20)) { rung.change { $0.append("forgotten \(object)") } }
        }
        cancelled.cancel()
        // It is later than both, on the same queue.
        let last = Alarm(after: .milliseconds(60)) { rung.change { $0.append("last") } }
        await rung.wait { !$0.isEmpty }
        #expect(rung.read { $0 } == ["last"])
        while held != nil { await Task.yield() }
        last.cancel()
    }

    @Test("a sleep ends after its time, and at once when its task is cancelled, before or meanwhile")
    func sleeps() async {
        let slept: Void? = try? await Alarm.sleep(for: .milliseconds(1))
        #expect(slept != nil)
        let began = Monitor(false)
        let task = Task {
            began.change { $0 = true }
            try await Alarm.sleep(for: .seconds(1_000_000_000_000))
        }
        await began.wait { $0 }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await Alarm.sleep(for: .seconds(3_600))
        }
        await #expect(throws: CancellationError.self) { try await late.value }
    }
}
