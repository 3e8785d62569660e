import Machine
import Synchronization
import TestSupport
import Testing

/// Numbers on their way from some tasks to others.
private struct Numbers: Sendable {
    enum Step: Sendable, Equatable {
        case number(Int)
        case end
    }

    var waiting: [Int] = []
    var isClosed = false
    let room: Int

    init(room: Int = .max) { self.room = room }

    mutating func put(_ number: Int) -> Void? {
        guard waiting.count < room else { return nil }
        return waiting.append(number)
    }

    mutating func next() -> Step? {
        guard waiting.isEmpty else { return .number(waiting.removeFirst()) }
        return isClosed ? .end : nil
    }
}

@Suite("A monitor", .timeLimit(.minutes(5)))
struct MonitorTests {
    // MARK: Any order of steps

    /// The tasks of a run, the numbers that they have got, and how many of them have ended.
    private struct Run: Sendable {
        var taken: [Int] = []
        var ended = 0
    }

    @Test("each number is taken once in any order of steps, with little room, and takers that are cancelled")
    func queue() {
        for seed in Depth.seeds(fast: 1_000, deep: 20_000) {
            let tasks = ShuffledTasks(seed: seed)
            let numbers = Monitor(Numbers(room: 1 + tasks.below(3)))
            let run = Mutex(Run())
            let putting = (0..<3).map { first in
                tasks.begin {
                    for number in 0..<20 {
                        await tasks.pause()
                        await numbers.take { $0.put(first * 20 + number) }
                    }
                    run.withLock { $0.ended += 1 }
                }
            }
            let taking = (0..<4).map { _ in
                tasks.begin {
                    while case .number(let number)? = await numbers.take(within: nil, { $0.next() }) {
                        run.withLock { $0.taken.append(number) }
                        await tasks.pause()
                    }
                    run.withLock { $0.ended += 1 }
                }
            }
            let ending = tasks.begin {
                for task in taking.dropFirst() {
                    for _ in 0..<tasks.below(8) { await tasks.pause() }
                    if tasks.below(2) == 0 { task.cancel() }
                }
                for task in putting { await task.value }
                numbers.change { $0.isClosed = true }
            }
            tasks.run()
            let (taken, ended) = run.withLock { ($0.taken, $0.ended) }
            #expect(ended == 7, "seed \(seed): a task waits for ever")
            #expect(taken.sorted() == Array(0..<60), "seed \(seed)")
            #expect(numbers.waiting == 0 && !ending.isCancelled, "seed \(seed)")
        }
    }

    @Test("no more tasks than there are turns have one, in any order of steps, and each that waits gets one")
    func turns() {
        for seed in Depth.seeds(fast: 1_000, deep: 20_000) {
            let tasks = ShuffledTasks(seed: seed)
            let free = Monitor(3)
            let run = Mutex((inside: 0, most: 0, ended: 0))
            let all = (0..<12).map { _ in
                tasks.begin {
                    await tasks.pause()
                    let hasTurn = await free.take(within: nil) { free -> Bool? in
                        guard free > 0 else { return nil }
                        free -= 1
                        return true
                    }
                    if hasTurn ?? false {
                        run.withLock { $0 = ($0.inside + 1, max($0.most, $0.inside + 1), $0.ended) }
                        await tasks.pause()
                        run.withLock { $0.inside -= 1 }
                        free.change { $0 += 1 }
                    }
                    run.withLock { $0.ended += 1 }
                }
            }
            _ = tasks.begin {
                for task in all.prefix(4) {
                    await tasks.pause()
                    task.cancel()
                }
            }
            tasks.run()
            #expect(run.withLock { $0.ended } == 12, "seed \(seed): a task waits for ever")
            #expect(run.withLock { $0.most } <= 3, "seed \(seed)")
            #expect(free.read { $0 } == 3, "seed \(seed)")
        }
    }

    /// A wait as it must not be: the waiter is woken, and does not look again.
    private final class WokenOnly: Sendable {
        private let state = Mutex((numbers: Numbers(), waiters: [CheckedContinuation<Void, Never>]()))

        func change(_ body: (inout Numbers) -> Void) {
            let waiters = state.withLock { state in
                defer { state.waiters = [] }
                body(&state.numbers)
                return state.waiters
            }
            for waiter in waiters { waiter.resume() }
        }

        func next() async -> Numbers.Step? {
            await withCheckedContinuation { continuation in
                let waits = state.withLock { state in
                    let waits = state.numbers.waiting.isEmpty && !state.numbers.isClosed
                    if waits { state.waiters.append(continuation) }
                    return waits
                }
                if !waits { continuation.resume() }
            }
            return state.withLock { $0.numbers.next() }
        }
    }

    @Test("these orders of steps find a wait that does not look again")
    func orders() {
        let found = Mutex(0)
        for seed in UInt64(1)...100 {
            let tasks = ShuffledTasks(seed: seed)
            let numbers = WokenOnly()
            for _ in 0..<2 {
                _ = tasks.begin {
                    while true {
                        let step = await numbers.next()
                        if step == nil { found.withLock { $0 += 1 } }
                        guard case .number? = step else { return }
                        await tasks.pause()
                    }
                }
            }
            _ = tasks.begin {
                for number in 0..<10 {
                    await tasks.pause()
                    numbers.change { $0.waiting.append(number) }
                }
                numbers.change { $0.isClosed = true }
            }
            tasks.run()
        }
        #expect(found.withLock { $0 } > 0)
    }

    // MARK: Threads

    @Test("tasks on many threads take each number once and in order, at the pace of those that put them")
    func threads() async {
        for _ in 0..<Depth.pick(fast: 20, deep: 500) {
            let numbers = Monitor(Numbers())
            async let first = Self.all(numbers)
            async let second = Self.all(numbers)
            await withTaskGroup(of: Void.self) { group in
                for writer in 0..<2 {
                    group.addTask {
                        for number in writer * 1_000..<(writer + 1) * 1_000 {
                            numbers.change { $0.waiting.append(number) }
                        }
                    }
                }
            }
            numbers.change { $0.isClosed = true }
            let (one, other) = await (first, second)
            #expect((one + other).sorted() == Array(0..<2_000))
            for taken in [one, other] {
                #expect(taken.filter { $0 < 1_000 } == taken.filter { $0 < 1_000 }.sorted())
                #expect(taken.filter { $0 >= 1_000 } == taken.filter { $0 >= 1_000 }.sorted())
            }
        }
    }

    private static func all(_ numbers: Monitor<Numbers>) async -> [Int] {
        var taken: [Int] = []
        while case .number(let number) = await numbers.take({ $0.next() }) { taken.append(number) }
        return taken
    }

    @Test("a wait that ends by its result, its patience and its cancellation at once ends by one of them")
    func together() async {
        for round in 0..<Depth.pick(fast: 500, deep: 20_000) {
            let numbers = Monitor(Numbers())
            let waiting = Task {
                await numbers.take(within: .microseconds(round % 50)) { $0.next() }
            }
            let putting = Task.detached { numbers.change { $0.waiting.append(7) } }
            let ending = Task.detached { waiting.cancel() }
            let step = await waiting.value
            await putting.value
            await ending.value
            // A number that was not given out is still there.
            #expect(numbers.read { $0.waiting } == (step == .number(7) ? [] : [7]))
            #expect(numbers.waiting == 0)
        }
    }

    // MARK: One after the other

    /// Begins waits for a number, one after the other.
    private static func wait(_ count: Int, _ numbers: Monitor<Numbers>) async -> [Task<Numbers.Step, Never>] {
        var waits: [Task<Numbers.Step, Never>] = []
        for place in 1...count {
            waits.append(Task { await numbers.take { $0.next() } })
            while numbers.waiting < place { await Task.yield() }
        }
        return waits
    }

    @Test("those that wait get theirs in the order of their coming, and a cancelled one stays in its place")
    func order() async {
        let numbers = Monitor(Numbers())
        let waits = await Self.wait(3, numbers)
        waits[0].cancel()
        numbers.change { $0.waiting = [1, 2] }
        #expect(await waits[0].value == .number(1))
        #expect(await waits[1].value == .number(2))
        #expect(numbers.waiting == 1)
        numbers.change { $0.isClosed = true }
        #expect(await waits[2].value == .end)
    }

    @Test("a result that makes room lets an earlier wait end too")
    func chain() async {
        let numbers = Monitor(Numbers(room: 1))
        await numbers.take { $0.put(1) }
        let putting = Task { await numbers.take { $0.put(2) } }
        while numbers.waiting < 1 { await Task.yield() }
        #expect(await numbers.take { $0.next() } == .number(1))
        await putting.value
        #expect(numbers.read { $0.waiting } == [2] && numbers.waiting == 0)
    }

    @Test("the result of a later wait ends an earlier one, in the change that ended the later")
    func backwards() async {
        let count = Monitor(0)
        let earlier = Task { await count.wait { $0 == 2 } }
        while count.waiting < 1 { await Task.yield() }
        let later = Task {
            await count.take { count -> Void? in
                guard count == 1 else { return nil }
                count += 1
                return ()
            }
        }
        while count.waiting < 2 { await Task.yield() }
        count.change { $0 = 1 }
        #expect(count.waiting == 0)
        await later.value
        await earlier.value
    }

    @Test("a change that gives a waiting task nothing leaves it waiting, and a look resumes nobody")
    func nothing() async {
        let numbers = Monitor(Numbers())
        let waits = await Self.wait(2, numbers)
        numbers.change { _ in }
        #expect(numbers.read { $0.waiting.isEmpty } && numbers.waiting == 2)
        numbers.change { $0.waiting = [1] }
        #expect(numbers.waiting == 1)
        numbers.change { $0.isClosed = true }
        #expect(await waits[0].value == .number(1))
        #expect(await waits[1].value == .end)
    }

    @Test("patience ends a wait without a result, and no patience at all still gets what is there")
    func patience() async {
        let numbers = Monitor(Numbers())
        #expect(await numbers.take(within: .zero) { $0.next() } == nil)
        #expect(await !numbers.wait(within: .milliseconds(2)) { $0.isClosed })
        #expect(numbers.waiting == 0)
        numbers.change { $0.isClosed = true }
        #expect(await numbers.take(within: .zero) { $0.next() } == .end)
        #expect(await numbers.wait(within: .zero) { $0.isClosed })
    }

    @Test("a task cancelled before its wait gets what is there, and does not wait for more")
    func cancelled() async {
        let numbers = Monitor(Numbers())
        numbers.change { $0.waiting = [1] }
        let steps = Task {
            while !Task.isCancelled { await Task.yield() }
            return await [1, 2].mapWaiting { _ in await numbers.take(within: nil) { $0.next() } }
        }
        steps.cancel()
        #expect(await steps.value == [.number(1), nil])
    }
}

extension Array {
    fileprivate func mapWaiting<Other>(_ body: (Element) async -> Other) async -> [Other] {
        var all: [Other] = []
        for element in self { all.append(await body(element)) }
        return all
    }
}
