import CRDT
import DQL
import DQLCorpus

/// How much of some SELECTs runs inside PostgreSQL. Counted are those that read stored documents and succeed.
struct PushedShares: CustomStringConvertible {
    /// SQL finds the rows, and bounds, orders and groups them as far as the statement does; the evaluator
    /// only shapes them.
    private(set) var whole = 0
    /// SQL does a part, or the evaluator asks again.
    private(set) var part = 0
    /// SQL only hands out all documents of a collection to the evaluator.
    private(set) var none = 0

    var description: String {
        let all = max(1, whole + part + none)
        return "\(whole * 100 / all) % wholly in PostgreSQL (\(whole)), \(part) in part, \(none) not"
    }

    /// Counts a step if it is a SELECT of stored documents.
    mutating func add(_ step: CorpusCase.Step, on engine: ProjectionEngine) {
        guard let prepared = try? PreparedStatement(step.statement), prepared.kind == .select,
            prepared.collectionsRead.contains(where: { !$0.text.hasPrefix("system:") }),
            let row = try? engine.rows("EXPLAIN " + step.statement, step.arguments).first,
            let operators = row["plan"]?["children"]?.arrayValue
        else { return }
        let names = operators.compactMap { $0["#operator"]?.stringValue }
        let pushed = operators.first { $0["#operator"] == "postgres" }
        let isCounted = names.contains("countScan") || operators.contains { $0["covers"] == true }
        let isExact = pushed?["decides"] == "exact" || isCounted
        let kind = isCounted ? "group" : pushed?["part"]?.stringValue
        var isWhole = !names.contains("nlJoin") && !names.contains("group")
        if names.contains("filter") { isWhole = isWhole && isExact && kind != "group" }
        if names.contains("sort") { isWhole = isWhole && kind == "top" }
        if names.contains("distinct") { isWhole = isWhole && kind == "group" }
        if isWhole { whole += 1 } else if pushed != nil { part += 1 } else { none += 1 }
    }
}
