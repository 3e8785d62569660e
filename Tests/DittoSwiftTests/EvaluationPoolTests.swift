import Synchronization
import Testing

@testable import DittoSwift

@Suite("The pool that runs observers' queries")
struct EvaluationPoolTests {
    @Test(
        "as many run at a time as it is wide, and all of them run", arguments: [1, 2, 3])
    func width(width: Int) async {
        let pool = EvaluationPool { width }
        let running = Mutex((now: 0, most: 0))
        let begun = Collected<Int>()
        let ended = Collected<Int>()
        for number in 0..<200 {
            pool.submit {
                running.withLock { running in
                    running.now += 1
                    running.most = max(running.most, running.now)
                }
                begun.add(number)
                // Until as many run as may: nobody else would let it end.
                while begun.all.count < width { Thread.sleep(forTimeInterval: 0.000_1) }
                running.withLock { $0.now -= 1 }
                ended.add(number)
            }
        }
        #expect(await ended.wait { $0.count == 200 }.count == 200)
        #expect(running.withLock { $0.most } == width)
        #expect(Set(begun.all).count == 200)
        // It begins again after it had nothing to do.
        pool.submit { ended.add(200) }
        #expect(await ended.wait { $0.count == 201 }.last == 200)
    }

    @Test("one after the other they run in the order they came; a width of nothing is one")
    func order() async {
        let ended = Collected<Int>()
        let pool = EvaluationPool { 0 }
        for number in 0..<200 { pool.submit { ended.add(number) } }
        #expect(await ended.wait { $0.count == 200 } == Array(0..<200))
    }
}
