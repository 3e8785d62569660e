/// A place in a statement: line and column in characters, both from 1.
public struct SourcePosition: Hashable, Sendable {
    /// The line, from 1. Lines end with a line feed.
    public let line: Int
    /// The column in characters (what a reader counts), from 1.
    public let column: Int

    /// A position.
    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }
}

/// A part of a statement, in UTF-8 bytes from its start.
///
/// All spans are equal to each other: syntax trees compare by content, not by position.
public struct SourceSpan: Equatable, Sendable {
    /// The first byte.
    public let start: Int
    /// One past the last byte.
    public let end: Int

    /// The part from `start` up to, not including, `end`.
    public init(start: Int, end: Int) {
        self.start = start
        self.end = end
    }

    /// Always true; see the type's comment.
    public static func == (left: SourceSpan, right: SourceSpan) -> Bool { true }

    /// The part from this one's start to the other's end.
    func through(_ other: SourceSpan) -> SourceSpan { SourceSpan(start: start, end: other.end) }
}

/// A statement's text: turns spans into positions and tokens only when an error needs them.
struct SourceText: Sendable {
    let text: String

    func position(of span: SourceSpan) -> SourcePosition {
        let utf8 = text.utf8
        let target = utf8.index(utf8.startIndex, offsetBy: min(span.start, utf8.count))
        var line = 1
        var lineStart = utf8.startIndex
        var index = utf8.startIndex
        while index < target {
            let isLineFeed = utf8[index] == UInt8(ascii: "\n")
            index = utf8.index(after: index)
            if isLineFeed {
                line += 1
                lineStart = index
            }
        }
        return SourcePosition(line: line, column: text[lineStart..<target].count + 1)
    }

    /// The place of the first token.
    var beginning: SourcePosition {
        var lexer = try? Lexer(self)
        return position(of: (try? lexer?.next())?.span ?? SourceSpan(start: 0, end: 0))
    }

    /// The end of the run of letters, digits and marks inside names that begins at this byte.
    func endOfRun(from start: Int) -> Int {
        let bytes = text.utf8.dropFirst(start)
        let marks: Set<UInt8> = Set("_-./+%>".utf8)
        return start
            + bytes.prefix { Lexer.isLetter($0) || Lexer.isDigit($0) || $0 >= 0x80 || marks.contains($0) }
            .count
    }

    /// The text of a span.
    func slice(_ span: SourceSpan) -> String {
        let start = text.utf8.index(text.utf8.startIndex, offsetBy: span.start)
        let end = text.utf8.index(start, offsetBy: span.end - span.start)
        return String(text[start..<end])
    }

    func token(of span: SourceSpan) -> String? {
        let utf8 = text.utf8
        guard span.start < span.end, span.end <= utf8.count else { return nil }
        let start = utf8.index(utf8.startIndex, offsetBy: span.start)
        let end = utf8.index(start, offsetBy: span.end - span.start)
        let token = text[start..<end]
        let limit = DQLLimits.quotedTokenCharacters
        return token.count <= limit ? String(token) : String(token.prefix(limit)) + "…"
    }

    @inline(never)
    func error(
        _ code: DQLErrorCode, _ message: String, at span: SourceSpan, suggestion: String? = nil
    ) -> DQLError {
        DQLError(code, message, position: position(of: span), token: token(of: span), suggestion: suggestion)
    }

    func warning(_ code: DQLWarningCode, _ message: String, at span: SourceSpan) -> DQLWarning {
        DQLWarning(code, message, position: position(of: span))
    }
}
