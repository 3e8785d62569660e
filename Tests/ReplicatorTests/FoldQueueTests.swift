import Synchronization
import Testing

@testable import Replicator

@Suite("What is folded and not published", .timeLimit(.minutes(1)))
struct FoldQueueTests {
    private final class Count: Sendable {
        private let value = Atomic<Int>(0)
        var current: Int { value.load(ordering: .relaxed) }
        func add() { value.add(1, ordering: .relaxed) }
    }

    /// Waits until what is written elsewhere says so.
    private func until(_ condition: () -> Bool) async throws {
        while !condition() { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("a few batches wait, in order; then whoever folds does, until one is taken")
    func bound() async throws {
        let queue = FoldQueue<Int>()
        let put = Count()
        let folding = Task {
            for number in 0..<20 {
                await queue.put(number)
                put.add()
            }
        }
        // The last of them is there, and its return waits for room.
        try await until { queue.count == Limits.unpublishedFolds }
        try await Task.sleep(for: .milliseconds(20))
        #expect(put.current == Limits.unpublishedFolds - 1)
        #expect(queue.count == Limits.unpublishedFolds)
        for number in 0..<20 { #expect(await queue.next() == number) }
        await folding.value
        #expect(queue.count == 0)
    }

    @Test("who waits for a batch gets it, and a queue that is closed lets both sides go")
    func closing() async throws {
        let queue = FoldQueue<Int>()
        let taking = Task { [await queue.next(), await queue.next()] }
        await queue.put(7)
        let full = FoldQueue<Int>()
        let folding = Task { for number in 0..<20 { await full.put(number) } }
        try await until { full.count == Limits.unpublishedFolds }
        queue.close()
        full.close()
        #expect(await taking.value == [7, nil])
        await folding.value
        #expect(await full.next() == nil)
        #expect(full.count == 0)
    }
}
