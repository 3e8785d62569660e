import Testing

@testable import Sync

@Suite("A queue of frames")
struct QueueTests {
    @Test("it is first in, first out, whatever comes and goes at its ends")
    func order() {
        var queue = Queue<Int>()
        var model: [Int] = []
        var number: UInt64 = 7
        for step in 0..<20_000 {
            number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            switch (number >> 33) % (step % 4_000 < 2_000 ? 5 : 9) {
            case 0, 1, 2:
                queue.append(step)
                model.append(step)
            case 3:
                queue.prepend(step)
                model.insert(step, at: 0)
            case 4 where !model.isEmpty:
                queue.removeLast()
                model.removeLast()
            case _ where !model.isEmpty:
                #expect(queue.removeFirst() == model.removeFirst())
            default: break
            }
            #expect(queue.count == model.count)
            #expect(queue.first == model.first)
            #expect(queue.last == model.last)
        }
    }

    @Test("what leaves from the front of a long queue moves nothing each time")
    func cost() {
        var queue = Queue<[UInt8]>()
        for _ in 0..<300_000 { queue.append([1]) }
        var taken = 0
        while !queue.isEmpty { taken += queue.removeFirst().count }
        #expect(taken == 300_000)
    }
}
