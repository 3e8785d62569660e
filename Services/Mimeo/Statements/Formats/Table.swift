import CRDT

/// Rows for people: aligned columns, numbers to the right, long values cut.
struct Table {
    let text: String

    init(_ items: [Value]) {
        let columns = RowColumns(items)
        guard !columns.names.isEmpty else {
            text = "(no row has a field)"
            return
        }
        let cells = columns.rows.map { row in columns.names.map { Self.cell(row[$0]) } }
        let titles = columns.names.map { Self.cut($0) }
        let widths = titles.indices.map { column in
            max(titles[column].count, cells.map { $0[column].count }.max() ?? 0)
        }
        let isNumber = columns.names.map { name in
            columns.rows.allSatisfy { row in
                switch row[name] {
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
        text = ([line(titles), rule] + cells.map(line)).joined(separator: "\n")
    }

    /// A cell: a string as it is, any other value as JSON, a missing field as nothing; one line of bounded
    /// length.
    private static func cell(_ value: Value?) -> String {
        guard let value else { return "" }
        return cut(value.stringValue ?? JSONText.print(value))
    }

    private static func cut(_ text: String) -> String {
        let line = PlainLine.of(text)
        guard line.count > Limits.tableColumnCharacters else { return line }
        return line.prefix(Limits.tableColumnCharacters - 1) + "…"
    }
}

/// Texts of documents for a terminal.
enum PlainLine {
    /// One line: a line feed becomes a space, any other control character `\\u001b`, so that a document's
    /// text cannot steer the terminal.
    static func of(_ text: String) -> String {
        var line = ""
        for character in text {
            if character.isNewline {
                line += " "
            } else if character.unicodeScalars.contains(where: isControl) {
                for scalar in character.unicodeScalars {
                    if isControl(scalar) {
                        let digits = String(scalar.value, radix: 16)
                        line += "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
                    } else {
                        line.unicodeScalars.append(scalar)
                    }
                }
            } else {
                line.append(character)
            }
        }
        return line
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }
}
