import CRDT
import DQL

/// The answer of EXPLAIN, PROFILE or ADVISE for a person.
struct Explained {
    /// The rows of the statement itself: PROFILE has them too.
    let rows: [Value]
    /// The tree with its figures (`PlanTree`), or the advice.
    let text: String

    /// Nil if the statement is another one, or its answer has no form that is known here.
    init?(_ result: Answer.Result, of statement: String) {
        guard case .explain(let explain)? = try? StatementCompiler.parse(statement),
            let last = result.items.last
        else { return nil }
        if let tree = PlanTree.text(of: last) {
            rows = Array(result.items.dropLast())
            text = Self.plain(tree.split(separator: "\n").map(String.init))
        } else if case .advise = explain.kind, let advice = last["advice"] {
            rows = []
            text = Self.advice(advice)
        } else {
            return nil
        }
    }

    private static func plain(_ lines: [String]) -> String {
        lines.map(PlainLine.of).joined(separator: "\n")
    }

    private static func advice(_ advice: Value) -> String {
        var lines = [advice["outcome"]?.stringValue ?? ""]
        for index in advice["suggestedIndexes"]?.arrayValue ?? [] {
            let statement = index["statement"]?.stringValue ?? ""
            lines.append("  \(statement); -- \(index["reason"]?.stringValue ?? "")")
        }
        for index in advice["existingIndexes"]?.arrayValue ?? [] {
            lines.append("  there is \(Self.index(index))")
        }
        for name in advice["createdIndexes"]?.arrayValue ?? [] {
            lines.append("  created \(name.stringValue ?? "")")
        }
        for failed in advice["failedIndexes"]?.arrayValue ?? [] {
            let name = failed["name"]?.stringValue ?? ""
            lines.append("  not created: \(name), \(failed["reason"]?.stringValue ?? "")")
        }
        return plain(lines)
    }

    /// `by_a on c (a, b DESC)`, from a row of `system:indexes`.
    static func index(_ row: Value) -> String {
        let keys = (row["fields"]?.arrayValue ?? []).map { field in
            let path = (field["key"]?.arrayValue ?? []).compactMap(\.stringValue)
            let isDescending = field["direction"]?.stringValue == "desc"
            return path.map(StatementText.name).joined(separator: ".") + (isDescending ? " DESC" : "")
        }
        let name = row["name"]?.stringValue ?? row["_id"]?.stringValue ?? ""
        let state = row["state"]?.stringValue.flatMap { $0 == "ready" ? nil : ", \($0)" } ?? ""
        return "\(name) on \(row["collection"]?.stringValue ?? "") (\(keys.joined(separator: ", ")))\(state)"
    }
}

/// A duration for a person.
enum Milliseconds {
    /// `0.310 ms`, `12.5 ms`, `3.40 s`.
    static func text(nanoseconds: Int64) -> String {
        let milliseconds = Double(nanoseconds) / 1e6
        return switch milliseconds {
        case ..<1: "\(rounded(milliseconds, 3)) ms"
        case ..<1_000: "\(rounded(milliseconds, 1)) ms"
        default: "\(rounded(milliseconds / 1_000, 2)) s"
        }
    }

    private static func rounded(_ number: Double, _ digits: Int) -> String {
        var scale: Int64 = 1
        for _ in 0..<digits { scale *= 10 }
        let units = Int64((number * Double(scale)).rounded())
        let fraction = String(units % scale)
        return "\(units / scale)." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
}
