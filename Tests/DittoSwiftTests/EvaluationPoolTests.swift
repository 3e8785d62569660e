import Dispatch
import Testing

@testable import DittoSwift

@Suite("The pool that runs observers' queries")
struct EvaluationPoolTests {
    @Test(
        "as many run at a time as it is wide, and all of them run", arguments: [1, 2, 3])
    func width(width: Int) async {
        let pool = EvaluationPool { width }
        let gate = DispatchSemaphore(value: 0)
        let begun = Collected<Int>()
        let ended = Collected<Int>()
        for number in 0..<20 {
            pool.submit {
                begun.add(number)
                gate.wait()
                ended.add(number)
            }
        }
        _ = await begun.wait { $0.count == width }
        // Nobody has ended yet, so nobody else may begin, however long it takes.
        try? await Task.sleep(for: .milliseconds(50))
        #expect(begun.all.count == width)
        for _ in 0..<20 { gate.signal() }
        #expect(Set(await ended.wait { $0.count == 20 }) == Set(0..<20))
        // It begins again after it had nothing to do.
        gate.signal()
        pool.submit {
            gate.wait()
            ended.add(20)
        }
        #expect(await ended.wait { $0.count == 21 }.last == 20)
    }

    @Test("one after the other they run in the order they came; a width of nothing is one")
    func order() async {
        let ended = Collected<Int>()
        let pool = EvaluationPool { 0 }
        for number in 0..<200 { pool.submit { ended.add(number) } }
        #expect(await ended.wait { $0.count == 200 } == Array(0..<200))
    }
}
