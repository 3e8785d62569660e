import DQL
import Foundation
import Machine
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

@Suite("The evaluation pool", .timeLimit(.minutes(2)))
struct EvaluationPoolTests {
    private func pool(
        _ change: (inout EvaluationOptions) -> Void = { _ in }
    ) -> EvaluationPool {
        var options = EvaluationOptions()
        options.places = 2
        change(&options)
        return EvaluationPool(options)
    }

    /// Computes until it is to stop, and throws the reason.
    private static func spin(_ evaluation: Evaluation) throws {
        while true {
            if let reason = evaluation.interruption() { throw DQLError.interrupted(reason) }
        }
    }

    private final class Counts: Sendable {
        let attempts = Atomic<Int>(0)
        let costly = Atomic<Int>(0)
    }

    private func code(_ body: () async throws -> Void) async -> DQLErrorCode? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? DQLError)?.code
        }
    }

    @Test("work runs on a thread of the pool, and its result or its error comes back")
    func result() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let name = try await evaluation.run { Thread.current.name }
        #expect(name == "evaluation")
        await #expect(throws: CancellationError.self) {
            try await evaluation.run { throw CancellationError() }
        }
        #expect(pool.turns == 0)
    }

    /// Counts itself for as long as somebody keeps it.
    private final class Kept: Sendable {
        let count: Mutex<Int>
        private let all: Kept?

        init(in all: Kept? = nil) {
            self.all = all
            count = Mutex(0)
            all?.count.withLock { $0 += 1 }
        }

        deinit { all?.count.withLock { $0 -= 1 } }
    }

    @Test("nothing keeps an evaluation that has ended, however soon its turn came")
    func released() async throws {
        let pool = pool { $0.places = 2 }
        let all = Kept()
        await withTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    for _ in 0..<Depth.pick(fast: 300, deep: 20_000) {
                        let kept = Kept(in: all)
                        let evaluation = pool.subscription(of: "\(caller)", in: "cars", limit: nil)
                        _ = try? await evaluation.run { kept.count.withLock { $0 += 1 } }
                    }
                }
            }
        }
        let end = ContinuousClock.now + .seconds(60)
        while all.count.withLock({ $0 }) > 0, ContinuousClock.now < end { await Task.yield() }
        #expect(all.count.withLock { $0 } == 0)
    }

    @Test("an alarm that comes after the last turn keeps no evaluation")
    func alarmedLate() async throws {
        let pool = pool()
        let all = Kept()
        do {
            let evaluation = pool.subscription(of: "a", in: "cars", limit: nil)
            evaluation.leave(Kept(in: all))
            try await evaluation.run {}
            evaluation.watchDeadline()
            // An alarm would begin to wait now.
            for _ in 0..<100 { await Task.yield() }
        }
        let end = ContinuousClock.now + .seconds(60)
        while all.count.withLock({ $0 }) > 0, ContinuousClock.now < end { await Task.yield() }
        #expect(all.count.withLock { $0 } == 0)
    }

    @Test("a wait for shared work ends with the work, with its error, and with the evaluation")
    func sharedWork() async throws {
        let evaluation = try pool().statement("s", of: "a", in: "cars")
        #expect(try await evaluation.waits {})
        await #expect(throws: CancellationError.self) {
            _ = try await evaluation.waits { throw CancellationError() }
        }
        let work = PendingAnswer<Void>()
        async let isDone = evaluation.waits { await work.value() }
        evaluation.end(.cancelled)
        #expect(try await !isDone)
        work.give(())
        #expect(try await !evaluation.waits { await PendingAnswer<Void>().value() })
    }

    @Test("a brief statement runs on the caller's thread, unless its credential runs as many as it may")
    func brief() throws {
        let pool = pool { $0.statementsPerCredential = 2 }
        let name = Thread.current.name
        #expect(pool.briefly(of: "a", in: "cars") { Thread.current.name } == name)
        let running = try (0..<2).map { _ in try pool.statement("s", of: "a", in: "cars") }
        #expect(pool.briefly(of: "a", in: "cars") { 1 } == nil)
        #expect(pool.briefly(of: "a", in: "boats") { 1 } == 1)
        #expect(pool.briefly(of: "b", in: "cars") { 1 } == 1)
        pool.finish(running[0])
        #expect(pool.briefly(of: "a", in: "cars") { 1 } == 1)
        #expect(pool.turns == 0)
    }

    @Test("a statement that computes for ever ends at its limit")
    func deadline() async throws {
        let pool = pool { $0.statementTime = .milliseconds(100) }
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let ended = await code { try await evaluation.run { try Self.spin(evaluation) } }
        #expect(ended == .timeout && evaluation.end == .timeout)
    }

    @Test("a subscription ends when it has computed for its limit, whatever it waited")
    func computing() async throws {
        let pool = pool()
        let evaluation = pool.subscription(of: "a", in: "cars", limit: .milliseconds(60))
        let ended = await code { try await evaluation.run { try Self.spin(evaluation) } }
        #expect(ended == .timeout)
        #expect(evaluation.processorTime >= .milliseconds(60))
    }

    @Test("a subscription that waits for a disk or a busy machine is not ended for that")
    func waitingComputesNothing() async throws {
        let evaluation = pool().subscription(of: "a", in: "cars", limit: .milliseconds(60))
        let reasons = try await evaluation.run {
            (0..<12).compactMap { _ in
                usleep(10_000)
                return evaluation.interruption()
            }
        }
        #expect(reasons.isEmpty && evaluation.end == nil)
        #expect(evaluation.computed >= .milliseconds(120))
    }

    @Test("a subscription that others kept waiting until its end begins again, and one that is costly ends")
    func begunAgain() async throws {
        let pool = pool {
            $0.places = 1
            $0.statementTime = .milliseconds(150)
            $0.subscriptionTime = .milliseconds(80)
        }
        let counts = Counts()
        let other = pool.subscription(of: "b", in: "cars", limit: nil)
        async let stuck: Void? = try? await other.run {
            while counts.attempts.load(ordering: .relaxed) < 3 { usleep(1_000) }
        }
        while pool.turns < 1 { try await Task.sleep(for: .milliseconds(5)) }
        // The place is taken until the third attempt.
        let seven = try await pool.subscribing(of: "a", in: "cars", as: "a page") { evaluation in
            #expect(pool.statements(in: "cars", of: "a").map(\.text) == ["a page"])
            counts.attempts.add(1, ordering: .relaxed)
            return try await evaluation.run { 7 }
        }
        #expect(seven == 7 && counts.attempts.load(ordering: .relaxed) >= 3)
        _ = await stuck
        let ended = await code {
            try await pool.subscribing(of: "a", in: "cars", as: "a page") { evaluation in
                counts.costly.add(1, ordering: .relaxed)
                try await evaluation.run { try Self.spin(evaluation) }
            }
        }
        #expect(ended == .timeout)
        #expect(counts.costly.load(ordering: .relaxed) < 20)
        #expect(pool.statements(in: "cars").isEmpty)
    }

    @Test("the nodes of a long statement hold memory, and end it where there is none")
    func nodes() throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "nodes", in: "cars")
        // One that runs would hold its memory for ever.
        defer { pool.finish(evaluation) }
        for _ in 0..<3 * Limits.countedNodes { #expect(evaluation.prepareNode() == nil) }
        #expect(evaluation.preparedBytes == 3 * Limits.countedNodes * Limits.nodeBytes)
        #expect(evaluation.held.bytes == evaluation.preparedBytes)
        let most = ClientBudget.memory.bytes / 2 / Limits.nodeBytes + Limits.countedNodes
        #expect((0..<most).contains { _ in evaluation.prepareNode() == .cancelled })
        let isRefused = if case .refused = evaluation.end { true } else { false }
        #expect(isRefused)
    }

    @Test("one that is cancelled ends, while it computes and while it waits for its first turn")
    func cancelled() async throws {
        let pool = pool { $0.places = 1 }
        let running = try pool.statement("s", of: "a", in: "cars")
        let began = Atomic<Bool>(false)
        async let first = code {
            try await running.run {
                began.store(true, ordering: .relaxed)
                // Never gives way: the other one waits.
                while !(running.end != nil) {}
                throw DQLError.interrupted(.cancelled)
            }
        }
        while !began.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(5)) }
        let waiting = try pool.statement("s", of: "b", in: "cars")
        async let second = code { try await waiting.run {} }
        while pool.turns < 2 { try await Task.sleep(for: .milliseconds(5)) }
        waiting.end(.cancelled)
        #expect(await second == .cancelled)
        running.end(.abandoned)
        #expect(await first == .cancelled)
    }

    @Test("one that waits for its first turn until its limit ends there")
    func waitedTooLong() async throws {
        let pool = pool {
            $0.places = 1
            $0.statementTime = .milliseconds(150)
        }
        let isOver = Atomic<Bool>(false)
        let other = pool.subscription(of: "a", in: "cars", limit: nil)
        async let stuck: Void? = try? await other.run {
            while !isOver.load(ordering: .relaxed) { usleep(1_000) }
        }
        while pool.turns < 1 { try await Task.sleep(for: .milliseconds(5)) }
        let evaluation = try pool.statement("s", of: "b", in: "cars")
        #expect(await code { try await evaluation.run {} } == .timeout)
        isOver.store(true, ordering: .relaxed)
        _ = await stuck
    }

    @Test("the task that waits is cancelled: so is its evaluation")
    func abandoned() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let task = Task { await code { try await evaluation.run { try Self.spin(evaluation) } } }
        while pool.turns < 1 { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(evaluation.end == .abandoned)
    }

    @Test("fifty statements that compute for ever let a short one of another credential through")
    func fairness() async throws {
        let pool = pool {
            $0.statementsPerCredential = 100
            $0.statementTime = .seconds(3_600)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            var heavy: [Evaluation] = []
            for number in 0..<50 {
                let evaluation = try pool.statement("s", of: "heavy-\(number % 3)", in: "cars")
                heavy.append(evaluation)
                group.addTask { _ = try? await evaluation.run { try Self.spin(evaluation) } }
            }
            while pool.turns < 50 { try await Task.sleep(for: .milliseconds(5)) }
            for _ in 0..<10 {
                let honest = try pool.statement("s", of: "honest", in: "cars")
                try await honest.run {}
                pool.finish(honest)
                // None of them had to end for it.
                #expect(pool.turns == 50)
            }
            for evaluation in heavy { evaluation.end(.cancelled) }
        }
        #expect(pool.turns == 0)
    }

    @Test("an urgent turn ends after its moment, and its evaluation goes on another way")
    func urgent() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let ended = await code { try await evaluation.run(isUrgent: true) { try Self.spin(evaluation) } }
        #expect(ended == .timeout && evaluation.hasTurnExpired && evaluation.end == nil)
        #expect(try await evaluation.run { 7 } == 7)
        #expect(!evaluation.hasTurnExpired)
    }

    @Test("an urgent turn on a busy machine has its moment of the processor, and a second by the clock")
    func urgentOnABusyMachine() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        func wait(_ time: Duration) async -> DQLErrorCode? {
            await code {
                try await evaluation.run(isUrgent: true) {
                    // The machine computes for others.
                    let end = ContinuousClock.now + time
                    while ContinuousClock.now < end {
                        usleep(10_000)
                        if evaluation.interruption() != nil { throw DQLError.interrupted(.timeout) }
                    }
                }
            }
        }
        #expect(await wait(.milliseconds(150)) == nil && !evaluation.hasTurnExpired)
        #expect(evaluation.lastTurn < .milliseconds(100))
        #expect(await wait(.seconds(20)) == .timeout && evaluation.hasTurnExpired)
        // A server that computes for it is no different from its own thread.
        let served = await code {
            try await evaluation.run(isUrgent: true) {
                try evaluation.waiting { interruption in
                    while interruption() == nil { usleep(10_000) }
                    throw DQLError.interrupted(.timeout)
                }
            }
        }
        #expect(served == .timeout && evaluation.hasTurnExpired)
        #expect(Depth.isInTime(evaluation.lastTurn, .milliseconds(900)))
    }

    @Test("a credential has so many statements in a database, and each database its own")
    func limit() throws {
        let pool = pool { $0.statementsPerCredential = 2 }
        let first = try pool.statement("one", of: "a", in: "cars")
        _ = try pool.statement("two", of: "a", in: "cars")
        let error = #expect(throws: ServiceError.self) { try pool.statement("three", of: "a", in: "cars") }
        #expect(error?.code == .tooManyRunning && error?.httpStatus.code == 429)
        #expect(error?.httpHeaders[.retryAfter] == "1")
        _ = try pool.statement("other", of: "a", in: "boats")
        _ = try pool.statement("other", of: "b", in: "cars")
        pool.finish(first)
        _ = try pool.statement("three", of: "a", in: "cars")
        #expect(pool.statements(in: "cars", of: "a").map(\.purpose.text) == ["two", "three"])
        #expect(pool.statements(in: "cars").count == 3)
    }

    @Test("a turn that is long lowers its thread's priority, and others keep theirs")
    func priority() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let lowered = try await evaluation.run {
            // The processor's time: a busy machine gives it less than the clock says.
            let end = WorkerThread.processorTime + Limits.evaluationMoment + .milliseconds(50)
            while WorkerThread.processorTime < end { _ = evaluation.interruption() }
            return getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
        }
        let usual = try await evaluation.run { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
        #expect(lowered > usual)
    }

    private static var ownPriority: Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }

    @Test("brief turns of a credential that has computed for long have a low priority too, until it rests")
    func priorityOfMany() async throws {
        let pool = pool()
        let (first, second) = (
            try pool.statement("s", of: "a", in: "cars"), try pool.statement("s", of: "a", in: "cars")
        )
        let other = try pool.statement("s", of: "b", in: "cars")
        let usual = try await first.run { Self.ownPriority }
        let isOver = Atomic<Bool>(false)
        let isLong = Atomic<Bool>(false)
        async let long: Void = first.run {
            let end = WorkerThread.processorTime + Limits.evaluationMoment + .milliseconds(50)
            while !isOver.load(ordering: .relaxed) {
                _ = first.interruption()
                if WorkerThread.processorTime > end { isLong.store(true, ordering: .relaxed) }
            }
        }
        while !isLong.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(5)) }
        for _ in 0..<2 { #expect(try await second.run { Self.ownPriority } > usual) }
        #expect(try await other.run { Self.ownPriority } == usual)
        #expect(try await second.run(isUrgent: true) { Self.ownPriority } == usual)
        isOver.store(true, ordering: .relaxed)
        try await long
        #expect(try await second.run { Self.ownPriority } == usual)
    }

    /// Tells the thread on which it is freed.
    private final class Freed: Sendable {
        let thread: Monitor<String?>
        init(_ thread: Monitor<String?>) { self.thread = thread }
        deinit {
            let name = Thread.current.name ?? ""
            thread.change { $0 = name }
        }
    }

    @Test("the large things of an evaluation are freed in a turn once it is finished, and not before")
    func leavings() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let thread = Monitor<String?>(nil)
        try await evaluation.run { evaluation.leave(Freed(thread)) }
        #expect(thread.read { $0 } == nil)
        // An evaluation that was ended leaves its things too.
        evaluation.end(.abandoned)
        pool.finish(evaluation)
        #expect(await thread.take { $0 } == "evaluation")
        while pool.turns > 0 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(pool.statements(in: "cars").isEmpty)
    }

    @Test("work apart goes on when the evaluation has ended")
    func apart() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        evaluation.end(.cancelled)
        #expect(try await evaluation.apart { Thread.current.name } == "evaluation")
        #expect(await code { try await evaluation.run {} } == .cancelled)
    }

    @Test("a turn that waits for a disk or a busy machine keeps its thread's priority")
    func waiting() async throws {
        let pool = pool()
        let evaluation = try pool.statement("s", of: "a", in: "cars")
        let priority = try await evaluation.run {
            for _ in 0..<20 {
                usleep(10_000)
                _ = evaluation.interruption()
            }
            return getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
        }
        let usual = try await evaluation.run { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
        #expect(priority == usual)
    }

    @Test("one that has given way ends when it is cancelled or its time is over, though nobody else does")
    func endsWhilePaused() async throws {
        for isCancelled in [true, false] {
            let pool = pool {
                $0.places = 1
                $0.statementTime = isCancelled ? .seconds(90) : .milliseconds(400)
            }
            let isOver = Atomic<Bool>(false)
            let paused = try pool.statement("s", of: "a", in: "cars")
            async let first = code { try await paused.run { try Self.spin(paused) } }
            while pool.turns < 1 { try await Task.sleep(for: .milliseconds(5)) }
            // It takes the only place as soon as the first one gives way, and keeps it.
            let other = pool.subscription(of: "b", in: "cars", limit: nil)
            let took = Atomic<Bool>(false)
            async let second: Void? = try? await other.run {
                took.store(true, ordering: .relaxed)
                while !isOver.load(ordering: .relaxed) { usleep(1_000) }
            }
            while !took.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(5)) }
            if isCancelled { paused.end(.cancelled) }
            #expect(await first == (isCancelled ? .cancelled : .timeout))
            #expect(pool.turns == 1)
            isOver.store(true, ordering: .relaxed)
            _ = await second
        }
    }

    @Test("the list of running statements shows the beginning of a long text")
    func text() throws {
        let evaluation = try pool().statement(
            String(repeating: "x", count: 5_000), of: "a", in: "cars")
        #expect(evaluation.purpose.text.count == Limits.shownStatementCharacters + 1)
    }
}
