import CRDT

/// Rows as a table in Markdown, uncut; columns of numbers stand to the right.
struct MarkdownTable {
    let text: String

    init(_ items: [Value]) {
        let columns = RowColumns(items)
        let rule = columns.names.map { name in
            let isNumber = columns.rows.allSatisfy { row in
                switch row[name] {
                case nil, .null, .int, .double: true
                default: false
                }
            }
            return isNumber ? "--:" : "---"
        }
        let rows = columns.rows.map { row in columns.names.map { Self.cell(row[$0]) } }
        text = ([columns.names.map(Self.escaped), rule] + rows)
            .map { "| \($0.joined(separator: " | ")) |" }.joined(separator: "\n")
    }

    private static func cell(_ value: Value?) -> String {
        guard let value else { return "" }
        return escaped(value.stringValue ?? JSONText.print(value))
    }

    /// One line: a bar and a backslash are escaped, a line feed becomes `<br>`.
    private static func escaped(_ text: String) -> String {
        var line = ""
        for character in text {
            switch character {
            case "|", "\\", "<": line += "\\" + String(character)
            case _ where character.isNewline: line += "<br>"
            default: line.append(character)
            }
        }
        return PlainLine.of(line)
    }
}
