import CRDT
import DQL
import DQLCorpus

/// How much of some SELECTs runs inside PostgreSQL. Counted are those that read stored documents and succeed.
///
/// A SELECT runs *wholly* there if SQL decides about each document: whether it is in the result, at which
/// place, and in which group. The evaluator then sees the documents of the result, whose rows it shapes, and
/// those in doubt (decision 0154). HAVING and ORDER BY of groups read no document, and are counted apart.
struct PushedShares: CustomStringConvertible {
    /// SQL decides about all documents, and there is nothing else.
    private(set) var documents = 0
    /// SQL makes the groups; HAVING and ORDER BY of groups are here.
    private(set) var groups = 0
    /// The number of the others by the reason.
    private(set) var reasons: [String: Int] = [:]
    private var examples: [String: String] = [:]

    /// SQL decides about all documents.
    var whole: Int { documents + groups }
    /// All statements.
    var all: Int { whole + reasons.values.reduce(0, +) }
    /// The share of those in hundreds.
    var percent: Int { whole * 100 / max(1, all) }

    var description: String {
        let others = reasons.sorted { ($0.value, $1.key) > ($1.value, $0.key) }.map { reason, count in
            "\n  \(count) for \(reason): \(examples[reason] ?? "")"
        }
        return """
            \(percent) % wholly in PostgreSQL (\(whole) of \(all); \(groups) of them with HAVING or ORDER BY \
            over the groups)\(others.joined())
            """
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
        // What is counted, or read from an index alone, is decided by keys.
        let isCounted = names.contains("countScan") || operators.contains { $0["covers"] == true }
        let part = isCounted ? "group" : pushed?["part"]?.stringValue
        let reason = Self.reason(names, part, isExact: pushed?["decides"] == "exact")
        if let reason {
            reasons[reason, default: 0] += 1
            examples[reason] = examples[reason] ?? step.statement
        } else if part == "group", names.contains("filter") || names.contains("sort") {
            groups += 1
        } else {
            documents += 1
        }
    }

    /// The part of a statement that the evaluator does with documents that are not in the result; nil if
    /// there is none.
    private static func reason(_ names: [String], _ part: String?, isExact: Bool) -> String? {
        if names.contains("nlJoin") { return "a join" }
        if part == "group" { return nil }
        if names.contains("idScan") {
            return names.contains { ["filter", "group", "sort", "distinct"].contains($0) }
                ? "more than the ids of documents" : nil
        }
        if names.contains("filter"), !isExact {
            return part == nil ? "a condition without SQL" : "a condition of which SQL tells a part"
        }
        if names.contains("group") { return "keys or aggregates without SQL" }
        if names.contains("distinct") { return "DISTINCT without SQL" }
        if part == "join", !isExact { return "a join of which SQL tells a part" }
        if names.contains("sort"), part != "top" { return "an order without SQL" }
        return nil
    }
}
