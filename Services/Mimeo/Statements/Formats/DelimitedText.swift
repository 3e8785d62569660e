import CRDT

/// Rows as comma-separated values (RFC 4180) with a header row, uncut. `mimeo import` reads the same values:
/// a string that looks like a number, `true`, `false` or `null`, and an empty one, is in quotes, and a
/// missing field is nothing between the commas.
struct DelimitedText {
    let text: String

    init(_ items: [Value]) {
        let columns = RowColumns(items)
        let header = columns.names.map { Self.quoted($0, force: $0.isEmpty) }.joined(separator: ",")
        let lines = columns.rows.map { row in
            columns.names.map { Self.field(row[$0]) }.joined(separator: ",")
        }
        text = ([header] + lines).joined(separator: "\r\n")
    }

    private static func field(_ value: Value?) -> String {
        guard let value else { return "" }
        guard let string = value.stringValue else { return quoted(JSONText.print(value), force: false) }
        return quoted(string, force: string.isEmpty || isLiteral(string))
    }

    /// Returns whether a text without quotes would be read as a value of another kind.
    private static func isLiteral(_ text: String) -> Bool {
        ["true", "false", "null"].contains(text) || Int64(text) != nil || Double(text) != nil
    }

    private static func quoted(_ text: String, force: Bool) -> String {
        let special: Set<Unicode.Scalar> = [",", "\"", "\n", "\r"]
        let hasEdge = text.hasPrefix(" ") || text.hasSuffix(" ")
        guard force || hasEdge || text.unicodeScalars.contains(where: special.contains) else { return text }
        let doubled = text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        return "\"\(doubled)\""
    }
}
