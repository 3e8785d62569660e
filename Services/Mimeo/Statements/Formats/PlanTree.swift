import CRDT

/// A query plan as a tree: the operator that gives the result at the top, those that it takes rows from
/// below.
///
///     projection a
///     └─ filter a = 1
///        └─ indexScan c.by_a  ranges: = 1  direction: forward
struct PlanTree {
    let text: String

    /// - Parameter plan: the `sequence` of EXPLAIN, or of PROFILE with `#stats`.
    init(_ plan: Value) {
        let root = Node(sequence: plan) ?? Node(title: JSONText.print(plan), children: [])
        var lines: [String] = []
        root.draw(into: &lines, "", "")
        text = lines.joined(separator: "\n")
    }

    private struct Node {
        var title: String
        var children: [Node]

        init(title: String, children: [Node]) {
            self.title = title
            self.children = children
        }

        /// The last operator of a sequence above those before it; nil if it has none.
        init?(sequence: Value) {
            guard let operators = sequence["children"]?.arrayValue else { return nil }
            var below: Node?
            for value in operators {
                var node = Node(value)
                if let below { node.children.insert(below, at: 0) }
                below = node
            }
            guard let below else { return nil }
            self = below
        }

        /// One operator with the plans inside it.
        init(_ value: Value) {
            title = OperatorTitle(value).text
            children = ["child", "plan"].compactMap { value[$0].flatMap { Node(sequence: $0) } }
            children += (value["scans"]?.arrayValue ?? []).map { Node($0) }
        }

        func draw(into lines: inout [String], _ first: String, _ rest: String) {
            lines.append(first + title)
            for (place, child) in children.enumerated() {
                let isLast = place == children.count - 1
                child.draw(into: &lines, rest + (isLast ? "└─ " : "├─ "), rest + (isLast ? "   " : "│  "))
            }
        }
    }
}

/// The line of one operator: its name, its main property, then the others.
private struct OperatorTitle {
    private(set) var text: String

    /// Shown as branches of the tree.
    private static let branches: Set<String> = [
        "#operator", "child", "plan", "scans", "#stats", "rangeCount",
    ]
    /// Shown without their names.
    private static let plain: Set<String> = ["condition", "limit", "on", "projection", "terms", "type"]

    init(_ value: Value) {
        let name = value["#operator"]?.stringValue ?? "?"
        text = name
        let object = value.objectValue ?? ObjectValue()
        if let collection = object["collection"]?.stringValue {
            text += " " + collection + (object["index"]?.stringValue.map { ".\($0)" } ?? "")
            if let alias = object["alias"]?.stringValue { text += " \(alias)" }
        }
        for entry in object.entries where !Self.branches.contains(entry.key) {
            switch entry.key {
            case "collection", "index", "alias": continue
            case "ranges": text += "  ranges: \(ranges(entry.value, count: object["rangeCount"]?.intValue))"
            case _ where Self.plain.contains(entry.key): text += " \(Self.word(entry.value))"
            default: text += "  \(entry.key): \(Self.word(entry.value))"
            }
        }
        if let counts = Self.counts(object["#stats"]) { text += "  (\(counts))" }
        text = PlainLine.of(text)
    }

    /// `20 → 3 documents`: what goes in and comes out.
    private static func counts(_ statistics: Value?) -> String? {
        guard let out = statistics?["documentsOut"]?.intValue else { return nil }
        let unit = out == 1 ? "document" : "documents"
        guard let before = statistics?["documentsIn"]?.intValue else { return "\(out) \(unit)" }
        return "\(before) → \(out) \(unit)"
    }

    private func ranges(_ value: Value, count: Int64?) -> String {
        let shown = value.arrayValue ?? []
        let texts = shown.map(Self.range)
        let more = (count ?? 0) - Int64(shown.count)
        return texts.joined(separator: " or ") + (more > 0 ? " or \(more) more" : "")
    }

    /// `= 1`, `= 1, > 2`, `>= 'a', < 'b'`.
    private static func range(_ value: Value) -> String {
        var parts = (value["equal"]?.arrayValue ?? []).map { "= \(literal($0))" }
        parts += [
            bound(value["from"], ["before": ">=", "after": ">", "beforeType": "from", "afterType": "after"]),
            bound(value["to"], ["before": "<", "after": "<=", "beforeType": "before", "afterType": "up to"]),
        ].compactMap { $0 }
        return parts.isEmpty ? "all" : parts.joined(separator: ", ")
    }

    private static func bound(_ position: Value?, _ signs: [String: String]) -> String? {
        guard let entry = position?.objectValue?.entries.first else { return nil }
        let sign = signs[entry.key] ?? entry.key
        return "\(sign) \(entry.key.hasSuffix("Type") ? word(entry.value) : literal(entry.value))"
    }

    private static func literal(_ value: Value) -> String {
        value.stringValue.map { $0 == "MISSING" ? $0 : "'\($0)'" } ?? JSONText.print(value)
    }

    private static func word(_ value: Value) -> String {
        if let terms = value.arrayValue { return terms.map(word).joined(separator: ", ") }
        return value.stringValue ?? JSONText.print(value)
    }
}
