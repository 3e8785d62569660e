import Machine
import Synchronization
import TestSupport
import Testing

@Suite("Bounded turns", .timeLimit(.minutes(5)))
struct BoundedTurnsTests {
    @Test("in any order of steps no more have a turn or wait than may, and each that began has an end")
    func orders() {
        for seed in Depth.seeds(fast: 1_000, deep: 20_000) {
            let tasks = ShuffledTasks(seed: seed)
            let turns = BoundedTurns(2, waiting: 4, for: nil)
            let run = Mutex((inside: 0, most: 0, had: 0, ended: 0))
            let all = (0..<12).map { _ in
                tasks.begin {
                    await tasks.pause()
                    if await turns.begin() {
                        run.withLock {
                            $0 = ($0.inside + 1, max($0.most, $0.inside + 1), $0.had + 1, $0.ended)
                        }
                        await tasks.pause()
                        run.withLock { $0.inside -= 1 }
                        turns.end()
                    }
                    run.withLock { $0.ended += 1 }
                }
            }
            let waiting = Mutex(0)
            _ = tasks.begin {
                for task in all.prefix(3) {
                    await tasks.pause()
                    waiting.withLock { $0 = max($0, turns.waiting) }
                    task.cancel()
                }
            }
            tasks.run()
            let (most, had, ended) = run.withLock { ($0.most, $0.had, $0.ended) }
            #expect(ended == 12 && turns.waiting == 0, "seed \(seed): a task waits for ever")
            #expect(most <= 2 && had >= 2 && waiting.withLock { $0 } <= 4, "seed \(seed)")
        }
    }

    @Test("beyond those that may wait nobody waits, and the longest of them has the next turn")
    func order() async {
        let turns = BoundedTurns(1, waiting: 2, for: nil)
        #expect(await turns.begin())
        let first = Task { await turns.begin() }
        while turns.waiting < 1 { await Task.yield() }
        let second = Task { await turns.begin() }
        while turns.waiting < 2 { await Task.yield() }
        #expect(await !turns.begin())
        turns.end()
        #expect(await first.value)
        second.cancel()
        #expect(await !second.value)
        turns.end()
        #expect(await turns.begin())
    }
}
