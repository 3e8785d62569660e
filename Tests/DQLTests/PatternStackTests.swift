import CRDT
import DQL
import DQLCorpus
import Foundation
import Testing

@Suite("Patterns on a small stack")
struct PatternStackTests {
    /// Frames of unoptimized code are several times as large.
    #if DEBUG
        private static let stackBytes = 4 * 1_024 * 1_024
    #else
        private static let stackBytes = 512 * 1_024
    #endif

    private static let groups = String(repeating: "(", count: 64) + "a" + String(repeating: ")", count: 64)

    @Test(
        "the deepest pattern is prepared and matched at the bottom of the deepest call",
        arguments: ["'\(groups)'", "concat('\(groups)', '')"])
    func deepest(_ pattern: String) {
        let outcome = Outcome()
        let calls = String(repeating: "coalesce(", count: 95)
        let call = "\(calls)regexp_like('a', \(pattern))\(String(repeating: ")", count: 95))"
        let thread = Thread {
            let statement = try? StatementCompiler.compile("SELECT RAW \(call) FROM system:dual")
            outcome.rows = (try? statement?.rows(in: MemoryStore())) ?? []
            outcome.done.signal()
        }
        thread.stackSize = Self.stackBytes
        thread.start()
        outcome.done.wait()
        #expect(outcome.rows == [true])
    }

    /// Written by one thread before it signals, read by the other after waiting: never accessed at the same
    /// time.
    private final class Outcome: @unchecked Sendable {
        let done = DispatchSemaphore(value: 0)
        var rows: [Value] = []
    }
}
