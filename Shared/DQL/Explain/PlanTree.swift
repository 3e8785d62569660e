import CRDT

/// A plan as an indented tree for people: the last step first, below it the steps that its rows come from.
///
///     projection  make, year
///     └─ filter  year > 2020
///        └─ scan  cars
public enum PlanTree {
    /// The tree of a row of EXPLAIN, or of the last row of PROFILE; nil for any other row.
    public static func text(of row: Value) -> String? {
        if let profile = row["~request_profile"] {
            guard let plan = profile["plan"] else { return nil }
            return lines(of: profile) + tree(of: plan)
        }
        guard let plan = row["plan"], plan[operatorKey] != nil, row.objectValue?.count == 1 else {
            return nil
        }
        return tree(of: plan)
    }

    private static let operatorKey = "#operator"
    private static let statisticsKey = "#stats"
    /// The members that hold further operators.
    private static let below = ["children", "child", "scans", "plan"]

    // MARK: Profiles

    /// The kind of statement, its results and its times.
    private static func lines(of profile: Value) -> String {
        let type = profile["queryType"]?.stringValue ?? "statement"
        let count = profile["resultCount"].map { text(of: $0, plain: true) } ?? "0"
        var line = "\(type): \(count) results"
        if let elapsed = profile["times"]?["elapsed"]?.intValue, elapsed > 0 {
            line += " in \(milliseconds(elapsed))"
            let parts = ["parse", "plan"].compactMap { name in
                profile["times"]?[name]?.intValue.map { "\(name) \(milliseconds($0))" }
            }
            if !parts.isEmpty { line += " (\(parts.joined(separator: ", ")))" }
        }
        return line + "\n"
    }

    /// Nanoseconds as milliseconds with three digits after the point.
    private static func milliseconds(_ nanoseconds: Int64) -> String {
        let micros = nanoseconds / 1_000
        let fraction = String(micros % 1_000)
        return "\(micros / 1_000)." + String(repeating: "0", count: 3 - fraction.count) + fraction + " ms"
    }

    // MARK: Operators

    /// One operator with those whose rows it takes.
    private struct Node {
        let line: String
        var inputs: [Node]
    }

    private static func tree(of plan: Value) -> String {
        var lines: [String] = []
        for node in nodes(of: plan) { draw(node, first: "", others: "", into: &lines) }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func draw(_ node: Node, first: String, others: String, into lines: inout [String]) {
        lines.append(first + node.line)
        for (index, input) in node.inputs.enumerated() {
            let isLast = index == node.inputs.count - 1
            draw(
                input, first: others + (isLast ? "└─ " : "├─ "), others: others + (isLast ? "   " : "│  "),
                into: &lines)
        }
    }

    /// The operators of a sequence as one chain: each takes the rows of the one before it.
    private static func nodes(of plan: Value) -> [Node] {
        guard plan[operatorKey]?.stringValue == "sequence", case .array(let steps)? = plan["children"] else {
            return [node(plan)]
        }
        var last: [Node] = []
        for step in steps {
            var next = node(step)
            next.inputs = last + next.inputs
            last = [next]
        }
        return last
    }

    private static func node(_ step: Value) -> Node {
        let inputs = below.flatMap { key -> [Node] in
            switch step[key] {
            case .array(let plans)?: plans.flatMap(nodes(of:))
            case .object(let plan)?: nodes(of: .object(plan))
            default: []
            }
        }
        return Node(line: line(of: step), inputs: inputs)
    }

    /// `indexScan  cars.by_year  equal [2020]  (out 5)`.
    private static func line(of step: Value) -> String {
        guard let members = step.objectValue else { return text(of: step, plain: false) }
        var parts = [members[operatorKey]?.stringValue ?? "step"]
        if let collection = members["collection"]?.stringValue {
            let index = members["index"]?.stringValue.map { "." + $0 } ?? ""
            let alias = members["alias"]?.stringValue.map { " AS " + $0 } ?? ""
            parts.append(collection + index + alias)
        }
        let shown = [operatorKey, statisticsKey, "collection", "index", "alias", "rangeCount"] + below
        for entry in members.entries where !shown.contains(entry.key) {
            parts.append(part(entry.key, entry.value, of: members))
        }
        if let statistics = members[statisticsKey]?.objectValue {
            var counts = [("in", "documentsIn"), ("out", "documentsOut")].compactMap { name, key in
                statistics[key].map { "\(name) \(text(of: $0, plain: false))" }
            }
            if let time = statistics["phaseTimes"]?["total"]?.intValue { counts.append(milliseconds(time)) }
            if !counts.isEmpty { parts.append("(\(counts.joined(separator: ", ")))") }
        }
        return parts.joined(separator: "  ")
    }

    /// One member of an operator. The main ones stand without their names.
    private static func part(_ key: String, _ value: Value, of members: ObjectValue) -> String {
        switch (key, value) {
        case ("condition", _), ("projection", _), ("type", _), ("reason", _): text(of: value, plain: true)
        case ("terms", .array(let terms)), ("keys", .array(let terms)):
            "by " + terms.map { text(of: $0, plain: true) }.joined(separator: ", ")
        case ("ranges", .array(let ranges)):
            ranges.map(range).joined(separator: ", ") + more(than: ranges.count, members["rangeCount"])
        case ("covers", true): "covering"
        case ("empty", true): "nothing"
        case ("direction", "forward"): "forward"
        case ("direction", "backward"): "backward"
        default: "\(key) \(text(of: value, plain: true))"
        }
    }

    private static func more(than shown: Int, _ count: Value?) -> String {
        guard let count = count?.intValue, count > shown else { return "" }
        return " and \(count - Int64(shown)) more"
    }

    /// A range of an index: the equal values of its first keys, then the bounds of the next key.
    private static func range(_ range: Value) -> String {
        guard let members = range.objectValue, !members.isEmpty else { return "all" }
        return members.entries.map { "\($0.key) \(bound($0.value))" }.joined(separator: " ")
    }

    /// `{"before": 5}` as `before 5`.
    private static func bound(_ bound: Value) -> String {
        guard let entry = bound.objectValue?.entries.first, bound.objectValue?.count == 1 else {
            return text(of: bound, plain: false)
        }
        return "\(entry.key) \(text(of: entry.value, plain: false))"
    }

    /// - Parameter plain: a string stands without quotes.
    private static func text(of value: Value, plain: Bool) -> String {
        if plain, case .string(let text) = value { return text }
        return JSONText.print(value)
    }
}
