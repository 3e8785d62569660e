import CRDT
import DQL
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

    private static let deepStatements: [String] = {
        let calls = String(repeating: "abs(", count: 100) + "1" + String(repeating: ")", count: 100)
        let chain = Array(repeating: "1", count: 120).joined(separator: " + ")
        let groups = String(repeating: "(", count: 64) + "a" + String(repeating: ")", count: 64)
        let outside = String(repeating: "coalesce(", count: 95)
        let pattern = outside + "regexp_like('a', '\(groups)')" + String(repeating: ")", count: 95)
        let computed = pattern.replacingOccurrences(of: "'\(groups)'", with: "concat('\(groups)', '')")
        return [calls, chain, "(" + chain + ") = 120", pattern, computed].map { "SELECT RAW \($0) FROM system:dual" }
    }()

    @Test("a statement of the deepest allowed nesting runs on a small stack", arguments: deepStatements)
    func deepest(_ text: String) throws {
        let outcome = Self.onSmallStack { outcome in
            let statement = try? StatementCompiler.compile(text)
            let again = statement.flatMap { try? StatementCompiler.parse(StatementPrinter.print($0.statement)) }
            outcome.rows = (try? statement?.rows(in: MemoryStore())) ?? []
            outcome.isDone = again == statement?.statement
        }
        #expect(outcome.rows.count == 1)
        #expect(outcome.isDone)
    }

    /// What nests, each as often as fits the limit: its beginning, middle and end, and how often.
    private static let nestings: [(String, String, String, Int)] = [
        ("SELECT RAW ", "(SELECT RAW a FROM c WHERE b = ", "1", 40), ("SELECT ", "ANY v IN a SATISFIES ", "v", 120),
        ("SELECT ", "ARRAY a FOR v IN b WHEN ", "v", 120), ("SELECT ", "OBJECT 'k' : ", "v", 120),
        ("SELECT ", "a IN (SELECT b FROM c WHERE ", "d", 40), ("SELECT ", "EXISTS (SELECT * FROM c WHERE ", "d", 60),
        ("SELECT ", "CASE WHEN a THEN ", "b", 120), ("SELECT ", "{'a': ", "1", 120), ("SELECT ", "NOT ", "a", 120),
        ("UPDATE c SET a -> (", "b -> (", "c = 1", 120), ("SELECT ", "a IN +", "b", 120),
        ("SELECT TRIM(BOTH FROM ", "POSITION(a IN ", "b", 120), ("SELECT ", "(((", "a", 40),
        ("SELECT * FROM COLLECTION c (", "a MAP(", "b MAP", 120),
    ]

    @Test("whatever nests is read, printed and turned into JSON on a small stack", arguments: nestings)
    func nested(_ start: String, _ middle: String, _ end: String, _ count: Int) throws {
        let closing = [
            "ANY": " END", "ARR": " FOR v IN w END", "OBJ": " FOR v IN w END", "CAS": " END", "{'a": "}", "NOT": "",
            "a I": middle.hasSuffix("+") ? "" : ")", "(((": ")))", "(SE": ")", "EXI": ")", "b -": ")",
            "POS": ")", "a M": ")",
        ]
        let close = try #require(closing[String(middle.prefix(3))])
        let closed = close == " FOR v IN w END" && middle.hasPrefix("ARR") ? " END" : close
        let ends = start.hasPrefix("UPDATE") ? ")" : start.contains("COLLECTION") ? ")" : " FROM c"
        let text =
            start + String(repeating: middle, count: count) + end + String(repeating: closed, count: count)
            + (start.hasPrefix("SELECT TRIM") ? ")" : "") + ends
        let outcome = Self.onSmallStack { outcome in
            let statement = try? StatementCompiler.parse(text)
            let again = statement.flatMap { try? StatementCompiler.parse(StatementPrinter.print($0)) }
            outcome.isDone = statement != nil && again == statement && statement?.jsonValue["node"] != nil
            _ = failure(of: text)
        }
        #expect(outcome.isDone, "\(text.prefix(200))")
    }

    @Test("a legacy query of the deepest allowed nesting is read on a small stack")
    func legacy() {
        for query in [
            String(repeating: "!(", count: 60) + "a" + String(repeating: ")", count: 60),
            String(repeating: "keys(", count: 120) + "a" + String(repeating: ")", count: 120),
        ] {
            let outcome = Self.onSmallStack { outcome in
                let text = try? LegacyQuery.statement(query, from: "c")
                outcome.isDone = text.flatMap { try? StatementCompiler.parse($0) } != nil
            }
            #expect(outcome.isDone)
        }
    }

    private static func onSmallStack(_ body: @escaping @Sendable (Outcome) -> Void) -> Outcome {
        let outcome = Outcome()
        let thread = Thread {
            body(outcome)
            outcome.done.signal()
        }
        thread.stackSize = stackBytes
        thread.start()
        outcome.done.wait()
        return outcome
    }

    /// Written by one thread before it signals, read by the other after it has waited: no access at one time.
    private final class Outcome: @unchecked Sendable {
        let done = DispatchSemaphore(value: 0)
        var rows: [Value] = []
        var isDone = false
    }
}
