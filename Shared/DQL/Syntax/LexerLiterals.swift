extension Lexer {
    // MARK: Strings

    /// A string literal: JSON escapes, an unknown escape drops its backslash, a doubled quote is one quote.
    mutating func string() throws(DQLError) -> Token.Kind {
        let start = offset
        let quote = bytes[offset]
        offset += 1
        var content: [UInt8] = []
        while let next = byte() {
            offset += 1
            switch next {
            case quote where byte() == quote:
                content.append(quote)
                offset += 1
            case quote:
                let text = String(decoding: content, as: UTF8.self)
                return .string(text, doubleQuoted: quote == UInt8(ascii: "\""))
            case UInt8(ascii: "\\"): try escape(into: &content)
            default: content.append(next)
            }
        }
        offset = start + 1
        throw error(.unterminated, "the string has no closing quote", from: start)
    }

    /// The escape sequence after a backslash.
    private mutating func escape(into content: inout [UInt8]) throws(DQLError) {
        guard let letter = byte() else { return }
        let start = offset - 1
        offset += 1
        switch letter {
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0C)
        case UInt8(ascii: "u"):
            let scalar = try unicodeEscape(from: start)
            content.append(contentsOf: Array(String(scalar).utf8))
        default: content.append(letter)
        }
    }

    private mutating func unicodeEscape(from start: Int) throws(DQLError) -> Unicode.Scalar {
        let first = try fourHexDigits(from: start)
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard first < 0xDC00, byte() == UInt8(ascii: "\\"), byte(1) == UInt8(ascii: "u") else {
            throw error(.invalidEscape, "half of a surrogate pair is not a character", from: start)
        }
        offset += 2
        let second = try fourHexDigits(from: start)
        guard (0xDC00...0xDFFF).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw error(.invalidEscape, "half of a surrogate pair is not a character", from: start) }
        return scalar
    }

    private mutating func fourHexDigits(from start: Int) throws(DQLError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let next = byte(), let digit = Self.hexDigit(next) else {
                throw error(.invalidEscape, "\\u takes four hexadecimal digits", from: start)
            }
            value = value << 4 | UInt32(digit)
            offset += 1
        }
        return value
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    // MARK: Numbers

    /// `42`, `2.5`, `1e3`, `0xFF`. A whole number beyond 64 bits is an error: as a float it would be another.
    mutating func number() throws(DQLError) -> Token.Kind {
        let start = offset
        if bytes[offset] == UInt8(ascii: "0"), let mark = byte(1), mark | 0x20 == UInt8(ascii: "x") {
            return try hexadecimal()
        }
        skipDigits()
        var isWhole = true
        if byte() == UInt8(ascii: ".") {
            isWhole = false
            offset += 1
            guard let next = byte(), Self.isDigit(next) else {
                throw error(.invalidNumber, "a number has digits after its point", from: start)
            }
            skipDigits()
        }
        if let mark = byte(), mark | 0x20 == UInt8(ascii: "e") {
            let signed = byte(1) == UInt8(ascii: "+") || byte(1) == UInt8(ascii: "-")
            if let next = byte(signed ? 2 : 1), Self.isDigit(next) {
                isWhole = false
                offset += signed ? 2 : 1
                skipDigits()
            }
        }
        try expectNumberEnd(from: start)
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        if isWhole {
            guard let integer = UInt64(text) else { throw tooLarge(from: start) }
            return .integer(integer)
        }
        guard let double = Double(text), double.isFinite else {
            throw error(.invalidNumber, "the number is beyond the range of a float", from: start)
        }
        return .double(double)
    }

    private mutating func hexadecimal() throws(DQLError) -> Token.Kind {
        let start = offset
        offset += 2
        var integer: UInt64? = 0
        while let next = byte(), let digit = Self.hexDigit(next) {
            integer = integer.flatMap { $0 >> 60 == 0 ? $0 << 4 | UInt64(digit) : nil }
            offset += 1
        }
        guard offset > start + 2 else {
            throw error(.invalidNumber, "not a hexadecimal number", from: start)
        }
        try expectNumberEnd(from: start)
        guard let integer else { throw tooLarge(from: start) }
        return .integer(integer)
    }

    private func tooLarge(from start: Int) -> DQLError {
        error(.invalidNumber, NumberSyntax.tooLarge, from: start)
    }

    private mutating func skipDigits() {
        while let next = byte(), Self.isDigit(next) { offset += 1 }
    }

    /// Refuses `12abc`, which would otherwise read as a number and an alias, and `1.2.3`.
    private mutating func expectNumberEnd(from start: Int) throws(DQLError) {
        guard let next = byte(),
            next == UInt8(ascii: "_") || next == UInt8(ascii: ".") || Self.isLetter(next)
                || Self.isDigit(next)
        else { return }
        offset = source.endOfRun(from: start)
        let text = source.token(of: SourceSpan(start: start, end: offset)) ?? ""
        guard next != UInt8(ascii: ".") else { throw error(.invalidNumber, "not a number", from: start) }
        throw error(
            .invalidNumber, "not a number; as a name, write `\(text)`", from: start, suggestion: "`\(text)`")
    }
}
