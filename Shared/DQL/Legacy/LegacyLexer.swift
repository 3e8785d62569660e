/// Turns a legacy query's bytes into tokens. Words and numbers are the same as in DQL; strings differ.
struct LegacyLexer {
    private var lexer: Lexer

    /// Throws `statementTooLong`.
    init(_ source: SourceText) throws(DQLError) { lexer = try Lexer(source) }

    mutating func next() throws(DQLError) -> LegacyToken {
        while let byte = lexer.byte(), byte == UInt8(ascii: " ") || (0x09...0x0D).contains(byte) {
            lexer.offset += 1
        }
        let start = lexer.offset
        guard let first = lexer.byte() else {
            return LegacyToken(kind: .end, span: SourceSpan(start: start, end: start))
        }
        let kind: LegacyToken.Kind
        switch first {
        case UInt8(ascii: "'"), UInt8(ascii: "\""): kind = .string(try string(quote: first))
        case UInt8(ascii: "0")...UInt8(ascii: "9"): kind = try number()
        default:
            if let word = lexer.word() {
                kind = .word(word)
            } else {
                kind = .symbol(try symbol(first))
            }
        }
        return LegacyToken(kind: kind, span: SourceSpan(start: start, end: lexer.offset))
    }

    private mutating func symbol(_ first: UInt8) throws(DQLError) -> LegacySymbol {
        if let known = LegacySymbol.read(first, lexer.byte(1)) {
            lexer.offset += known.width
            return known.symbol
        }
        let start = lexer.offset
        lexer.offset += lexer.scalar()?.width ?? 1
        let suggestion: String? =
            switch first {
            case UInt8(ascii: "&"): "&&"
            case UInt8(ascii: "|"): "||"
            default: nil
            }
        throw lexer.error(.invalidCharacter, "unexpected character", from: start, suggestion: suggestion)
    }

    private mutating func number() throws(DQLError) -> LegacyToken.Kind {
        switch try lexer.number() {
        case .integer(let magnitude): .integer(magnitude)
        case .double(let number): .double(number)
        default: preconditionFailure("a number is an integer or a double")
        }
    }

    /// A string in single or double quotes. A backslash before anything but a quote or a backslash stays:
    /// patterns of regular expressions were written unescaped (`'\d+'`).
    private mutating func string(quote: UInt8) throws(DQLError) -> String {
        let start = lexer.offset
        lexer.offset += 1
        var content: [UInt8] = []
        while let next = lexer.byte() {
            lexer.offset += 1
            if next == quote { return String(decoding: content, as: UTF8.self) }
            if next == UInt8(ascii: "\\"), let escaped = lexer.byte(),
                [UInt8(ascii: "\\"), UInt8(ascii: "'"), UInt8(ascii: "\"")].contains(escaped)
            {
                content.append(escaped)
                lexer.offset += 1
            } else {
                content.append(next)
            }
        }
        lexer.offset = start + 1
        throw lexer.error(.unterminated, "the string has no closing quote", from: start)
    }
}
