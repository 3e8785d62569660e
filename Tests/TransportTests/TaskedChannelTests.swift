import Synchronization
import Testing

@testable import Transport

@Suite("A channel of tasks", .timeLimit(.minutes(1)))
struct TaskedChannelTests {
    @Test("each posted frame is told once whether it was sent, also one that comes after the end")
    func told() async {
        let connection = MemoryConnection()
        let channel = connection.channel
        let told = Mutex<[Bool]>([])
        channel.begin { _ in }
        channel.post([1]) { isSent in told.withLock { $0.append(isSent) } }
        await channel.end(code: 1_000, reason: "done")
        channel.post([2]) { isSent in told.withLock { $0.append(isSent) } }
        #expect(told.withLock { $0 } == [true, false])
        #expect(connection.sent == [[1]])
    }
}
