import CRDT

/// Rows with a line per field, uncut: for documents that are wider than a terminal.
struct VerticalText {
    let text: String

    init(_ items: [Value]) {
        let width = RowColumns(items).names.map { PlainLine.of($0).count }.max() ?? 0
        var lines: [String] = []
        for (place, item) in items.enumerated() {
            let fields = RowColumns([item])
            lines.append("-- row \(place + 1) --")
            for name in fields.names {
                let value = fields.rows[0][name] ?? .null
                let title = PlainLine.of(name)
                let space = String(repeating: " ", count: width - title.count)
                lines.append(
                    "\(title)\(space)  \(PlainLine.of(value.stringValue ?? JSONText.print(value)))")
            }
        }
        text = lines.joined(separator: "\n")
    }
}
