import Dispatch
import Machine
import Synchronization
import TestSupport
import Testing

@Suite("A pending answer", .timeLimit(.minutes(5)))
struct PendingAnswerTests {
    @Test("the first answer ends the wait in any order of giving, cancelling and waiting")
    func orders() {
        for seed in Depth.seeds(fast: 2_000, deep: 50_000) {
            let tasks = ShuffledTasks(seed: seed)
            let answer = PendingAnswer<Result<Int, any Error>>()
            let run = Mutex((found: [Int?](), counted: [Int]()))
            let waiting = tasks.begin {
                await tasks.pause()
                let found = try? await answer.getUnlessCancelled()
                run.withLock { $0.found.append(found) }
            }
            for number in 1...3 {
                _ = tasks.begin {
                    await tasks.pause()
                    await tasks.pause()
                    if answer.give(.success(number)) { run.withLock { $0.counted.append(number) } }
                }
            }
            if tasks.below(2) == 0 {
                _ = tasks.begin {
                    await tasks.pause()
                    waiting.cancel()
                }
            }
            tasks.run()
            let (found, counted) = run.withLock { ($0.found, $0.counted) }
            #expect(found.count == 1, "seed \(seed): a task waits for ever")
            #expect(counted.count == (found == [nil] ? 0 : 1), "seed \(seed)")
            #expect(found == [counted.first], "seed \(seed)")
        }
    }

    @Test("threads that give at once give one answer, which a task and a thread get alike")
    func threads() async {
        for round in 0..<Depth.pick(fast: 300, deep: 10_000) {
            let (answer, blocked) = (PendingAnswer<Int>(), PendingAnswer<Int>())
            let counted = Atomic(0)
            let givers = DispatchGroup()
            async let value = answer.value()
            for number in 0..<3 {
                DispatchQueue.global().async(group: givers) {
                    if answer.give(number) { counted.add(1, ordering: .relaxed) }
                    if blocked.give(number) { counted.add(1, ordering: .relaxed) }
                }
            }
            let thread = await PendingAnswer.of(DispatchQueue(label: "blocked")) { blocked.wait() }
            #expect(await 0..<3 ~= value && 0..<3 ~= thread, "round \(round)")
            #expect(!answer.give(9) && !blocked.give(9))
            // The answer is there before its giver has counted it.
            await PendingAnswer.of(DispatchQueue(label: "givers")) { givers.wait() }
            #expect(counted.load(ordering: .relaxed) == 2)
        }
    }

    @Test("an answer that came before the wait is there, and later ones change nothing")
    func before() async {
        let answer = PendingAnswer<String>()
        #expect(answer.give("first"))
        #expect(!answer.give("second"))
        #expect(await answer.value() == "first")
        #expect(!answer.give("third"))
    }

    @Test("a queue's result and its error are the answer")
    func queue() async throws {
        struct Refused: Error {}
        let queue = DispatchQueue(label: "answers")
        #expect(await PendingAnswer.of(queue) { 7 } == 7)
        await #expect(throws: Refused.self) {
            try await PendingAnswer<Result<Int, any Error>>.of(queue) { () throws -> Int in throw Refused() }
        }
    }

    @Test("a task that is cancelled before its wait gets an answer that is there, and waits for none")
    func cancelled() async {
        let (given, open) = (PendingAnswer<Result<Int, any Error>>(), PendingAnswer<Result<Int, any Error>>())
        given.give(.success(1))
        let waits = Task {
            while !Task.isCancelled { await Task.yield() }
            let first = try? await given.getUnlessCancelled()
            let second = try? await open.getUnlessCancelled()
            return [first, second]
        }
        waits.cancel()
        #expect(await waits.value == [1, nil])
    }
}
