import CRDT

/// Rows as comma-separated values with a header row, uncut. Every string is in quotes, so that the text `12`
/// and the number differ; a missing field is nothing between the commas, `null` is the word.
struct DelimitedText {
    let text: String

    init(_ items: [Value]) {
        let columns = RowColumns(items)
        let header = columns.names.map { Self.isPlain($0) ? $0 : Self.quoted($0) }
        let lines = columns.rows.map { row in columns.names.map { Self.field(row[$0]) } }
        text = ([header] + lines).map { $0.joined(separator: ",") }.joined(separator: "\n")
    }

    private static func field(_ value: Value?) -> String {
        guard let value else { return "" }
        if let string = value.stringValue { return quoted(string) }
        let text = JSONText.print(value)
        return text.contains(where: { "\",".contains($0) }) ? quoted(text) : text
    }

    private static func isPlain(_ name: String) -> Bool {
        !name.isEmpty && name.allSatisfy { $0.isLetter || $0.isNumber || "_-.$".contains($0) }
    }

    private static func quoted(_ text: String) -> String {
        "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}
