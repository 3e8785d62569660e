/// Turns a statement's bytes into tokens, one at a time. Spec section 1.1.
///
/// Invariant: `offset` stands between tokens and never inside a character.
struct Lexer {
    let source: SourceText
    let bytes: [UInt8]
    var offset = 0

    /// Throws `statementTooLong`.
    init(_ source: SourceText) throws(DQLError) {
        guard source.text.utf8.count <= DQLLimits.statementBytes else {
            throw DQLError(
                .statementTooLong,
                "the statement has \(source.text.utf8.count) bytes, more than \(DQLLimits.statementBytes)",
                position: SourcePosition(line: 1, column: 1))
        }
        self.source = source
        bytes = Array(source.text.utf8)
    }

    mutating func next() throws(DQLError) -> Token {
        var hints: [SourceSpan] = []
        try skipBlanks(&hints)
        guard offset < bytes.count else {
            return Token(kind: .end, span: SourceSpan(start: offset, end: offset), hints: hints)
        }
        let start = offset
        let kind: Token.Kind
        switch bytes[offset] {
        case UInt8(ascii: "'"), UInt8(ascii: "\""): kind = try string()
        case UInt8(ascii: "`"): kind = try quotedName()
        case UInt8(ascii: "0")...UInt8(ascii: "9"): kind = try number()
        default:
            if let word = word() {
                kind = .word(word, Keyword.lookup(word))
            } else {
                kind = .symbol(try symbol())
            }
        }
        return Token(kind: kind, span: SourceSpan(start: start, end: offset), hints: hints)
    }

    func byte(_ ahead: Int = 0) -> UInt8? {
        offset + ahead < bytes.count ? bytes[offset + ahead] : nil
    }

    func error(
        _ code: DQLErrorCode, _ message: String, from start: Int, suggestion: String? = nil
    ) -> DQLError {
        source.error(
            code, message, at: SourceSpan(start: start, end: max(offset, start)), suggestion: suggestion)
    }

    // MARK: Blanks and comments

    private mutating func skipBlanks(_ hints: inout [SourceSpan]) throws(DQLError) {
        while let first = byte() {
            switch (first, byte(1)) {
            case (UInt8(ascii: " "), _), (0x09...0x0D, _): offset += 1
            case (0xC2, 0xA0): offset += 2
            case (0xEF, 0xBB) where byte(2) == 0xBF: offset += 3
            case (UInt8(ascii: "-"), UInt8(ascii: "-")):
                let start = offset
                while let next = byte(), next != UInt8(ascii: "\n") { offset += 1 }
                noteHint(from: start, to: offset, &hints)
            case (UInt8(ascii: "/"), UInt8(ascii: "*")): try skipComment(&hints)
            default: return
            }
        }
    }

    /// A comment whose text begins with `+` is a hint.
    private func noteHint(from start: Int, to end: Int, _ hints: inout [SourceSpan]) {
        guard start + 2 < end, bytes[start + 2] == UInt8(ascii: "+") else { return }
        hints.append(SourceSpan(start: start + 3, end: end))
    }

    private mutating func skipComment(_ hints: inout [SourceSpan]) throws(DQLError) {
        let start = offset
        offset += 2
        while let first = byte() {
            if first == UInt8(ascii: "*"), byte(1) == UInt8(ascii: "/") {
                noteHint(from: start, to: offset, &hints)
                offset += 2
                return
            }
            offset += 1
        }
        offset = start + 2
        throw error(.unterminated, "the comment has no end", from: start, suggestion: "*/")
    }

    // MARK: Words

    /// The word at the offset; nil if none starts there.
    mutating func word() -> String? {
        let start = offset
        while let first = byte() {
            if first == UInt8(ascii: "_") || Self.isLetter(first) || (offset > start && Self.isDigit(first)) {
                offset += 1
            } else if first >= 0x80, let scalar = scalar(), scalar.value.properties.isAlphabetic {
                offset += scalar.width
            } else {
                break
            }
        }
        return offset > start ? String(decoding: bytes[start..<offset], as: UTF8.self) : nil
    }

    static func isLetter(_ byte: UInt8) -> Bool {
        let lower = byte | 0x20
        return lower >= UInt8(ascii: "a") && lower <= UInt8(ascii: "z")
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    /// The character at the offset and its width in bytes. The text came as a String, so it is valid UTF-8.
    func scalar() -> (value: Unicode.Scalar, width: Int)? {
        guard offset < bytes.count else { return nil }
        let width = bytes[offset] < 0x80 ? 1 : bytes[offset] < 0xE0 ? 2 : bytes[offset] < 0xF0 ? 3 : 4
        let text = String(decoding: bytes[offset..<min(offset + width, bytes.count)], as: UTF8.self)
        return text.unicodeScalars.first.map { ($0, width) }
    }

    private mutating func quotedName() throws(DQLError) -> Token.Kind {
        let start = offset
        offset += 1
        var name: [UInt8] = []
        while let next = byte() {
            offset += 1
            guard next == UInt8(ascii: "`") else {
                name.append(next)
                continue
            }
            guard byte() == UInt8(ascii: "`") else {
                return .quotedName(String(decoding: name, as: UTF8.self))
            }
            name.append(next)
            offset += 1
        }
        offset = start + 1
        throw error(.unterminated, "the quoted name has no closing back quote", from: start)
    }

    // MARK: Symbols

    private mutating func symbol() throws(DQLError) -> Symbol {
        let start = offset
        if let symbol = Symbol(bytes[offset], byte(1)) {
            offset += symbol.rawValue.utf8.count
            return symbol
        }
        switch (bytes[offset], byte(1)) {
        case (UInt8(ascii: "="), UInt8(ascii: "=")):
            offset += 2
            return .equal
        case (UInt8(ascii: "<"), UInt8(ascii: ">")):
            offset += 2
            return .notEqual
        case (UInt8(ascii: "&"), UInt8(ascii: "&")):
            offset += 2
            throw error(.invalidCharacter, "&& is not an operator", from: start, suggestion: "AND")
        default: break
        }
        let width = scalar()?.width ?? 1
        offset += width
        let suggestion = Self.replacement(String(decoding: bytes[start..<start + width], as: UTF8.self))
        throw error(.invalidCharacter, "unexpected character", from: start, suggestion: suggestion)
    }

    /// The token that was probably meant by a character that begins no token.
    private static func replacement(_ character: String) -> String? {
        switch character {
        case "!": "NOT"
        case "$", "?", "@": ":name"
        case "\u{2018}", "\u{2019}", "\u{201C}", "\u{201D}": "'"
        default: nil
        }
    }
}
