import DQL

/// Collects typed lines into statements.
///
/// A statement ends with `;`. A whole one that only reads also ends with its line if it is the first line and
/// no pasted line follows. Any other whole statement ends with an empty line: `DELETE FROM cars` may go on
/// with a WHERE in the next line, so it must not run before that.
struct TypedText {
    /// The lines of the statement so far.
    private(set) var text = ""

    var isEmpty: Bool { text.isEmpty }

    /// Abandons the lines.
    mutating func clear() { text = "" }

    /// Adds a line and takes the statements that it ends.
    /// - Parameter isMoreWaiting: true if further lines are there already.
    /// - Throws: `CLI-0503` if the text is longer than any statement; it is abandoned.
    mutating func add(_ line: String, isMoreWaiting: Bool) throws(MimeoError) -> [String] {
        let isEmptyLine = line.allSatisfy(\.isWhitespace)
        let isFirstLine = text.isEmpty
        text += (isFirstLine ? "" : "\n") + line
        guard text.utf8.count <= DQLLimits.statementBytes else {
            clear()
            throw MimeoError(
                .statementTooLong,
                "a statement has at most \(DQLLimits.statementBytes) bytes; this one is abandoned")
        }
        var statements: [String] = []
        while true {
            switch StatementText.progress(of: text) {
            case .blank:
                clear()
                return statements
            case .ended(let end):
                let place = text.utf8.index(text.startIndex, offsetBy: end)
                statements.append(String(text[..<place]))
                text = String(text[place...].drop { $0.isWhitespace })
            case .open: return statements
            case .complete:
                let runs = isEmptyLine || isFirstLine && !isMoreWaiting && Self.onlyReads(text)
                guard runs else { return statements }
                statements.append(text)
                clear()
                return statements
            case .wrong:
                guard isEmptyLine || !isMoreWaiting else { return statements }
                statements.append(text)
                clear()
                return statements
            }
        }
    }

    private static func onlyReads(_ text: String) -> Bool {
        switch try? StatementCompiler.parse(text) {
        case .select?, .show?: true
        case .explain(let explain)?:
            switch explain.kind {
            case .explain, .advise(provision: false): true
            case .profile: if case .select = explain.statement { true } else { false }
            case .advise(provision: true): false
            }
        default: false
        }
    }
}
