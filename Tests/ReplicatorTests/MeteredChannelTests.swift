import Synchronization
import Testing
import Transport

@testable import Replicator

@Suite("Frames that are paid for")
struct MeteredChannelTests {
    /// A channel in memory, and a clock that is moved by hand.
    private final class Bench: FrameChannel {
        private struct State {
            var arrived: (@Sendable (FrameArrival) -> Void)?
            var posted: [[UInt8]] = []
            var waits: [(seconds: Int64, body: @Sendable () -> Void)] = []
            var told: [String] = []
        }

        private let state = Mutex(State())

        var posted: [[UInt8]] { state.withLock(\.posted) }
        /// The frames that were told of, in order.
        var told: [String] { state.withLock(\.told) }
        var waits: [Int64] { state.withLock { $0.waits.map(\.seconds) } }

        /// A metered channel, each of whose frames costs a second for each byte beyond the tenth.
        var metered: MeteredChannel {
            MeteredChannel(self) {
                .seconds(max(0, $0 - 10))
            } wait: { [self] seconds, body in
                state.withLock { $0.waits.append((seconds, body)) }
            }
        }

        func tell(_ text: String) { state.withLock { $0.told.append(text) } }

        func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
            state.withLock { $0.arrived = arrived }
        }

        func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
            state.withLock { $0.posted.append(frame) }
            whenSent(frame.first != 0)
        }

        func end(code: UInt16, reason: String) async {}

        func arrive(_ frame: [UInt8]) {
            let arrived = state.withLock(\.arrived)
            arrived?(.frame(frame) { self.tell("taken \(frame.count)") })
        }

        func endWaits() {
            let waits = state.withLock { state in
                defer { state.waits = [] }
                return state.waits
            }
            for wait in waits { wait.body() }
        }
    }

    @Test("a frame in debt is handed on at once, and the next one is taken when the debt is paid")
    func arriving() {
        let bench = Bench()
        let channel = bench.metered
        channel.begin { arrival in
            guard case .frame(let frame, let taken) = arrival else { return bench.tell("ended") }
            bench.tell("arrived \(frame.count)")
            taken()
        }
        bench.arrive([UInt8](repeating: 1, count: 10))
        #expect(bench.told == ["arrived 10", "taken 10"])
        bench.arrive([UInt8](repeating: 1, count: 14))
        #expect(bench.told == ["arrived 10", "taken 10", "arrived 14"])
        #expect(bench.waits == [5])
        bench.endWaits()
        #expect(bench.told == ["arrived 10", "taken 10", "arrived 14", "taken 14"])
        // No longer than a session may be silent.
        bench.arrive([UInt8](repeating: 1, count: 1_000))
        #expect(bench.waits == [45])
    }

    @Test("a frame in debt is sent at once and counts as sent later; one that was not sent is told at once")
    func posted() {
        let bench = Bench()
        let channel = bench.metered
        for frame in [[UInt8](repeating: 1, count: 10), [UInt8](repeating: 2, count: 13)] {
            channel.post(frame) { bench.tell("\(frame.count) \($0)") }
        }
        #expect(bench.posted.map(\.count) == [10, 13])
        #expect(bench.told == ["10 true"])
        #expect(bench.waits == [4])
        bench.endWaits()
        #expect(bench.told == ["10 true", "13 true"])
        channel.post([UInt8](repeating: 0, count: 20)) { bench.tell("lost \(!$0)") }
        #expect(bench.told.last == "lost true")
        #expect(bench.waits.isEmpty)
    }
}
