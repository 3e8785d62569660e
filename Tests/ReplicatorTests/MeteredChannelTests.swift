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
            var passed = Duration.zero
            var timers: [(after: Duration, body: @Sendable () -> Void)] = []
            var told: [String] = []
        }

        private let start = ContinuousClock.now
        private let state = Mutex(State())

        var posted: [[UInt8]] { state.withLock(\.posted) }
        /// The frames that were told of, in order.
        var told: [String] { state.withLock(\.told) }
        /// The times of the timers that have not rung.
        var timers: [Duration] { state.withLock { $0.timers.map(\.after) } }

        /// A metered channel, each of whose frames costs a second for each byte beyond the tenth.
        var metered: MeteredChannel {
            let time = PaidPauses.Time {
                self.start + self.state.withLock(\.passed)
            } ring: { after, body in
                self.state.withLock { $0.timers.append((after, body)) }
                return nil
            }
            return MeteredChannel(self, time: time) { .seconds(max(0, $0 - 10)) }
        }

        func tell(_ text: String) { state.withLock { $0.told.append(text) } }

        func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
            state.withLock { $0.arrived = arrived }
        }

        func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
            state.withLock { $0.posted.append(frame) }
            whenSent(frame.first != 0)
        }

        func end(code: UInt16, reason: String) async { tell("closed") }

        func arrive(bytes: Int) {
            let arrived = state.withLock(\.arrived)
            arrived?(.frame([UInt8](repeating: 1, count: bytes)) { self.tell("taken \(bytes)") })
        }

        /// Time passes, and the timers that are there ring.
        func move(seconds: Int) {
            let timers = state.withLock { state in
                state.passed += .seconds(seconds)
                defer { state.timers = [] }
                return state.timers
            }
            for timer in timers { timer.body() }
        }

        /// Begins the channel; its frames are taken at once.
        func begin(_ channel: MeteredChannel) {
            channel.begin { arrival in
                guard case .frame(let frame, let taken) = arrival else { return self.tell("ended") }
                self.tell("arrived \(frame.count)")
                taken()
            }
        }
    }

    private func frame(_ bytes: Int, of byte: UInt8 = 1) -> [UInt8] { [UInt8](repeating: byte, count: bytes) }

    @Test("a frame in debt is handed on at once, and the next one is taken when the debt is paid")
    func arriving() {
        let bench = Bench()
        let channel = bench.metered
        bench.begin(channel)
        bench.arrive(bytes: 10)
        #expect(bench.told == ["arrived 10", "taken 10"])
        bench.arrive(bytes: 14)
        #expect(bench.told == ["arrived 10", "taken 10", "arrived 14"])
        #expect(bench.timers == [.seconds(4)])
        bench.move(seconds: 4)
        #expect(bench.told == ["arrived 10", "taken 10", "arrived 14", "taken 14"])
        #expect(bench.timers.isEmpty)
        // No longer than a session may be silent.
        bench.arrive(bytes: 1_000)
        #expect(bench.timers == [.seconds(45)])
    }

    @Test("a frame in debt is sent at once and counts as sent later; one that was not sent is told at once")
    func posted() {
        let bench = Bench()
        let channel = bench.metered
        for bytes in [10, 13] { channel.post(frame(bytes)) { bench.tell("\(bytes) \($0)") } }
        #expect(bench.posted.map(\.count) == [10, 13])
        #expect(bench.told == ["10 true"])
        #expect(bench.timers == [.seconds(3)])
        bench.move(seconds: 3)
        #expect(bench.told == ["10 true", "13 true"])
        channel.post(frame(20, of: 0)) { bench.tell("lost \(!$0)") }
        #expect(bench.told.last == "lost true")
        #expect(bench.timers.isEmpty)
    }

    @Test("one timer wakes all frames of a channel, each at its time and in their order")
    func oneTimer() {
        let bench = Bench()
        let channel = bench.metered
        for bytes in [12, 20, 14] { channel.post(frame(bytes)) { _ in bench.tell("\(bytes)") } }
        #expect(bench.timers == [.seconds(2)])
        bench.move(seconds: 2)
        #expect(bench.told == ["12"])
        // The last one waits for the one before it.
        #expect(bench.timers == [.seconds(8)])
        bench.move(seconds: 8)
        #expect(bench.told == ["12", "20", "14"])
        #expect(bench.timers.isEmpty)
    }

    @Test("of frames without number the oldest count as sent before their time")
    func bounded() {
        let bench = Bench()
        let channel = bench.metered
        for number in 0..<(Limits.pausedFrames + 3) {
            channel.post(frame(30)) { _ in bench.tell("\(number)") }
        }
        #expect(bench.told == ["0", "1", "2"])
        #expect(bench.timers == [.seconds(20)])
    }

    @Test("nothing waits for a channel that has ended")
    func ended() async {
        let bench = Bench()
        let channel = bench.metered
        bench.begin(channel)
        channel.post(frame(30)) { _ in bench.tell("sent 30") }
        bench.arrive(bytes: 40)
        await channel.end(code: 1_000, reason: "")
        #expect(bench.told == ["arrived 40", "sent 30", "taken 40", "closed"])
        bench.arrive(bytes: 50)
        #expect(bench.told.suffix(2) == ["arrived 50", "taken 50"])
        bench.move(seconds: 60)
        #expect(bench.told.count == 6)
        #expect(bench.timers.isEmpty)
    }
}
