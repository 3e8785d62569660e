import Dispatch
import Testing

@testable import DittoSwift

@Suite("The default queue of handlers", .timeLimit(.minutes(1)))
struct DefaultDeliveryTests {
    private let main = DispatchQueue(label: "the main queue")
    private let own = DispatchQueue(label: "the SDK's queue")
    private static let name = DispatchSpecificKey<String>()

    init() {
        main.setSpecific(key: Self.name, value: "main")
        own.setSpecific(key: Self.name, value: "own")
    }

    private func deliver(
        _ count: Int, by delivery: DefaultDelivery, from first: Int = 0, to calls: Collected<String>
    ) {
        for number in first..<(first + count) {
            delivery.async { calls.add("\(number) \(DispatchQueue.getSpecific(key: Self.name) ?? "")") }
        }
    }

    @Test("a main queue that is served calls all handlers, the first included")
    func served() async {
        let calls = Collected<String>()
        deliver(3, by: DefaultDelivery(main: main, own: own), to: calls)
        #expect(await calls.wait { $0.count == 3 } == ["0 main", "1 main", "2 main"])
    }

    @Test("one that is never served is waited for once, and the SDK's queue calls the handlers")
    func neverServed() async {
        main.suspend()
        defer { main.resume() }
        let calls = Collected<String>()
        let delivery = DefaultDelivery(main: main, own: own)
        let start = ContinuousClock.now
        deliver(2, by: delivery, to: calls)
        #expect(await calls.wait { $0.count == 2 } == ["0 own", "1 own"])
        #expect(ContinuousClock.now - start >= Limits.mainQueuePatience)
        // Not again: it is called before what is posted to the queue itself right after.
        deliver(1, by: delivery, from: 2, to: calls)
        own.async { calls.add("posted") }
        #expect(await calls.wait { $0.count == 4 }.suffix(2) == ["2 own", "posted"])
    }

    @Test("one that is served later gets the handlers from then on, in their order")
    func servedLater() async {
        main.suspend()
        let calls = Collected<String>()
        let delivery = DefaultDelivery(main: main, own: own)
        deliver(1, by: delivery, to: calls)
        #expect(await calls.wait { $0.count == 1 } == ["0 own"])
        main.resume()
        main.sync {}
        deliver(50, by: delivery, from: 1, to: calls)
        let expected = ["0 own"] + (1...50).map { "\($0) main" }
        #expect(await calls.wait { $0.count == 51 } == expected)
    }
}
