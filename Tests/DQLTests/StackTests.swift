import CRDT
import DQL
import DQLCorpus
import Foundation
import Testing

@Suite("Stack")
struct StackTests {
    /// A fraction of the eight megabytes that a thread has on Linux. Frames of unoptimized code are several
    /// times as large.
    #if DEBUG
        private static let stackBytes = 4 * 1_024 * 1_024
    #else
        private static let stackBytes = 1_024 * 1_024
    #endif

    private static let deepStatements: [String] = {
        let calls = String(repeating: "abs(", count: 100) + "1" + String(repeating: ")", count: 100)
        let chain = Array(repeating: "1", count: 120).joined(separator: " + ")
        return [calls, chain, "(" + chain + ") = 120"].map { "SELECT RAW \($0) FROM system:dual" }
    }()

    @Test("a statement of the deepest allowed nesting runs on a small stack", arguments: deepStatements)
    func deepest(_ text: String) throws {
        let outcome = Self.onSmallStack { outcome in
            let statement = try? StatementCompiler.compile(text)
            let again = statement.flatMap {
                try? StatementCompiler.parse(StatementPrinter.print($0.statement))
            }
            outcome.rows = (try? statement?.rows(in: MemoryStore())) ?? []
            outcome.isDone = again == statement?.statement
        }
        #expect(outcome.rows.count == 1)
        #expect(outcome.isDone)
    }

    private struct Nesting: Sendable, CustomStringConvertible {
        let opening: String
        let closing: String
        let count: Int
        var innermost = "a"
        var before = "SELECT "
        var after = " FROM c"

        var text: String {
            before + String(repeating: opening, count: count) + innermost
                + String(repeating: closing, count: count) + after
        }
        var description: String { opening }
    }

    /// Nested constructs, each as deep as the limit allows.
    private static let nestings: [Nesting] = [
        Nesting(opening: "ANY v IN a SATISFIES ", closing: " END", count: 120),
        Nesting(opening: "ARRAY a FOR v IN b WHEN ", closing: " END", count: 120),
        Nesting(opening: "ARRAY ", closing: " FOR v IN w END", count: 120),
        Nesting(opening: "OBJECT 'k' : ", closing: " FOR v IN w END", count: 120),
        Nesting(opening: "(SELECT RAW a FROM c WHERE b = ", closing: ")", count: 40),
        Nesting(opening: "a IN (SELECT b FROM c WHERE ", closing: ")", count: 40),
        Nesting(opening: "EXISTS (SELECT * FROM c WHERE ", closing: ")", count: 60),
        Nesting(opening: "CASE WHEN a THEN ", closing: " END", count: 120),
        Nesting(opening: "{'a': ", closing: "}", count: 120),
        Nesting(opening: "NOT ", closing: "", count: 120),
        Nesting(opening: "a IN +", closing: "", count: 120),
        Nesting(opening: "POSITION(a IN ", closing: ")", count: 120),
        Nesting(opening: "TRIM(BOTH FROM ", closing: ")", count: 120),
        Nesting(opening: "(((", closing: ")))", count: 40),
        Nesting(
            opening: "b -> (", closing: ")", count: 120, innermost: "c = 1", before: "UPDATE c SET a -> (",
            after: ")"),
        Nesting(
            opening: "a MAP(", closing: ")", count: 120, innermost: "b MAP",
            before: "SELECT * FROM COLLECTION c (", after: ")"),
    ]

    @Test("whatever nests is read, printed and turned into JSON on a small stack", arguments: nestings)
    private func nested(_ nesting: Nesting) {
        let text = nesting.text
        let outcome = Self.onSmallStack { outcome in
            let statement = try? StatementCompiler.parse(text)
            let again = statement.flatMap { try? StatementCompiler.parse(StatementPrinter.print($0)) }
            outcome.isDone = statement != nil && again == statement && statement?.jsonValue["node"] != nil
            _ = failure(of: text)
        }
        #expect(outcome.isDone)
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

    /// Written by one thread before it signals, read by the other after waiting: never accessed at the same
    /// time.
    private final class Outcome: @unchecked Sendable {
        let done = DispatchSemaphore(value: 0)
        var rows: [Value] = []
        var isDone = false
    }
}
