import CRDT
import DQL
import DQLCorpus
import Foundation
import Testing

@Suite("Stack")
struct StackTests {
    /// Frames of unoptimized code are several times as large.
    #if DEBUG
        private static let stackBytes = 4 * 1_024 * 1_024
    #else
        private static let stackBytes = 512 * 1_024
    #endif

    @Test("a statement of the deepest allowed nesting runs on a small stack")
    func deepest() throws {
        let parentheses = String(repeating: "abs(", count: 100) + "1" + String(repeating: ")", count: 100)
        let chain = Array(repeating: "1", count: 120).joined(separator: " + ")
        let groups = String(repeating: "(", count: 64) + "a" + String(repeating: ")", count: 64)
        let outside = String(repeating: "coalesce(", count: 95)
        let pattern = outside + "regexp_like('a', '\(groups)')" + String(repeating: ")", count: 95)
        let computed = pattern.replacingOccurrences(of: "'\(groups)'", with: "concat('\(groups)', '')")
        for expression in [parentheses, chain, "(" + chain + ") = 120", pattern, computed] {
            let outcome = Outcome()
            let thread = Thread {
                let statement = try? StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual")
                let again = statement.flatMap {
                    try? StatementCompiler.parse(StatementPrinter.print($0.statement))
                }
                outcome.rows = (try? statement?.rows(in: MemoryStore())) ?? []
                outcome.isSame = again == statement?.statement
                outcome.done.signal()
            }
            thread.stackSize = Self.stackBytes
            thread.start()
            outcome.done.wait()
            #expect(outcome.rows.count == 1)
            #expect(outcome.isSame)
        }
    }

    /// Written by one thread before it signals, read by the other after it has waited: no access at one time.
    private final class Outcome: @unchecked Sendable {
        let done = DispatchSemaphore(value: 0)
        var rows: [Value] = []
        var isSame = false
    }
}
