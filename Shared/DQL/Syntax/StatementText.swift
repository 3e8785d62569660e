/// Statements as a person types them, for prompts: where one ends, and the words that it may contain.
public enum StatementText {
    /// How far a text has got.
    public enum Progress: Equatable, Sendable {
        /// There is nothing in it but blanks and comments.
        case blank
        /// The first statement has no `;` yet, and is not whole.
        case open
        /// The first statement has no `;` yet, and is whole without one.
        case complete
        /// The first statement has no `;` yet, and no further text makes it right.
        case wrong
        /// The first statement with its `;` ends at this offset of the text's UTF-8 bytes.
        case ended(at: Int)
    }

    /// Finds the first `;` outside of literals and comments. A literal or comment without an end may end in
    /// later lines, so its text is open.
    public static func progress(of text: String) -> Progress {
        guard var lexer = try? Lexer(SourceText(text: text)) else { return .wrong }
        var isBlank = true
        while true {
            let before = lexer.offset
            do {
                switch try lexer.next().kind {
                case .end: return isBlank ? .blank : unended(text)
                case .symbol(.semicolon): return .ended(at: lexer.offset)
                default: isBlank = false
                }
            } catch {
                if error.code == .unterminated { return .open }
                // Running the statement will report the error; here it only must not hide the end.
                isBlank = false
                if lexer.offset == before { lexer.offset += 1 }
            }
        }
    }

    /// The progress of a text without `;`. Further text only helps where the text's end is the mistake.
    private static func unended(_ text: String) -> Progress {
        do {
            _ = try Parser.parse(text)
            return .complete
        } catch {
            let end = text.utf8.count
            let last = SourceText(text: text).position(of: SourceSpan(start: end, end: end))
            return error.code == .unexpectedEnd || error.position == last ? .open : .wrong
        }
    }

    /// The tokens of a text as written, and whether it ends inside of a literal, a quoted name or a comment.
    public static func tokens(of text: String) -> (tokens: [String], isInLiteral: Bool) {
        let source = SourceText(text: text)
        guard var lexer = try? Lexer(source) else { return ([], false) }
        var tokens: [String] = []
        while true {
            let before = lexer.offset
            do {
                let token = try lexer.next()
                if token.kind == .end {
                    // A line comment goes on to the line's end, which is not typed yet.
                    let skipped = source.slice(SourceSpan(start: before, end: token.span.end))
                    let line = skipped.split(separator: "\n", omittingEmptySubsequences: false).last ?? ""
                    return (tokens, line.contains("--"))
                }
                tokens.append(source.slice(token.span))
            } catch {
                if error.code == .unterminated { return (tokens, true) }
                if lexer.offset == before { lexer.offset += 1 }
            }
        }
    }

    /// The text with a `?` for each literal and without comments, for lists that show no value of a document.
    /// The part after a mistake of spelling is left out, and all that follows the first `bytes` bytes: a
    /// statement may have megabytes, and a list shows a line.
    public static func withoutValues(_ text: String, bytes: Int) -> String {
        // A literal that is cut here has no end, so nothing of it is shown.
        let isCut = text.utf8.count > bytes
        let source = SourceText(text: isCut ? String(decoding: text.utf8.prefix(bytes), as: UTF8.self) : text)
        guard var lexer = try? Lexer(source) else { return "…" }
        var (result, end) = ("", 0)
        while true {
            guard let token = try? lexer.next() else { return result + "…" }
            guard token.kind != .end else { return isCut ? result + "…" : result }
            if token.span.start > end, !result.isEmpty { result += " " }
            switch token.kind {
            case .string, .integer, .double: result += "?"
            default: result += source.slice(token.span)
            }
            end = token.span.end
        }
    }

    /// The words of the grammar in upper case, sorted.
    public static let keywords: [String] = Keyword.allCases.map(\.rawValue).sorted()

    /// The names of the functions, sorted.
    public static let functions: [String] = FunctionTable.names

    /// A name as a statement spells it: in back quotes if it is no plain word.
    public static func name(_ text: String) -> String { ExpressionPrinter.name(text) }
}
