import CRDT

/// A result for people: aligned columns, numbers to the right, or one line about what was written.
struct Table {
    let text: String

    init(_ result: Answer.Result) {
        var lines: [String] = []
        if !result.items.isEmpty { lines = Self.lines(result.items) }
        let count = result.mutatedDocumentIDs.count
        lines.append(
            count > 0
                ? "\(count) \(count == 1 ? "document" : "documents") written, commit \(result.commitID)"
                : "\(result.items.count) \(result.items.count == 1 ? "row" : "rows")")
        for warning in result.warnings {
            lines.append("warning: \(warning["message"]?.stringValue ?? JSONText.print(warning))")
        }
        text = lines.joined(separator: "\n")
    }

    private static func lines(_ items: [Value]) -> [String] {
        let rows = items.map { $0.objectValue ?? ObjectValue([(key: "$1", value: $0)]) }
        var columns: [String] = []
        for row in rows {
            for entry in row.entries where !columns.contains(where: { utf8Equal($0, entry.key) }) {
                columns.append(entry.key)
            }
        }
        let cells = rows.map { row in columns.map { cell(row[$0]) } }
        let titles = columns.map { cut($0) }
        let widths = columns.indices.map { column in
            max(titles[column].count, cells.map { $0[column].count }.max() ?? 0)
        }
        let isNumber = columns.indices.map { column in
            rows.allSatisfy { row in
                switch row[columns[column]] {
                case nil, .null, .int, .double: true
                default: false
                }
            }
        }
        func line(_ cells: [String]) -> String {
            let padded = cells.indices.map { column in
                let space = String(repeating: " ", count: widths[column] - cells[column].count)
                return isNumber[column] ? space + cells[column] : cells[column] + space
            }
            var text = padded.joined(separator: "  ")
            while text.hasSuffix(" ") { text.removeLast() }
            return text
        }
        let rule = widths.map { String(repeating: "-", count: $0) }.joined(separator: "  ")
        return [line(titles), rule] + cells.map(line)
    }

    /// A cell: a string as it is, any other value as JSON, a missing field as nothing; one line of bounded
    /// length.
    private static func cell(_ value: Value?) -> String {
        guard let value else { return "" }
        return cut(value.stringValue ?? JSONText.print(value))
    }

    private static func cut(_ text: String) -> String {
        let line = String(text.map { $0.isNewline ? " " : $0 })
        guard line.count > Limits.tableColumnCharacters else { return line }
        return line.prefix(Limits.tableColumnCharacters - 1) + "…"
    }
}
