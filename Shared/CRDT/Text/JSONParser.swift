/// A recursive-descent parser over UTF-8 bytes; see `JSONText`.
struct JSONParser {
    let bytes: [UInt8]
    /// True if an integer beyond 64 bits becomes a double; otherwise it is an error.
    let roundsIntegers: Bool
    /// True if duplicate keys, and numbers so small that they would become zero, are errors.
    let isStrict: Bool
    var place = 0
    /// Counts the values, for a text of somebody else.
    var count = ValueCount(nil)

    init(bytes: [UInt8], roundsIntegers: Bool = false, isStrict: Bool = false) {
        self.bytes = bytes
        self.roundsIntegers = roundsIntegers
        self.isStrict = isStrict
    }

    mutating func skipByteOrderMark() {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        if bytes[place...].starts(with: mark) { place += mark.count }
    }

    mutating func value(depth: Int) throws(CRDTError) -> Value {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        try count.add()
        skipSpace()
        switch peek {
        case UInt8(ascii: "{")?: return .object(try object(depth: depth))
        case UInt8(ascii: "[")?: return .array(try array(depth: depth))
        case UInt8(ascii: "\"")?: return .string(try string())
        case UInt8(ascii: "t")?: return try literal("true", .bool(true))
        case UInt8(ascii: "f")?: return try literal("false", .bool(false))
        case UInt8(ascii: "n")?: return try literal("null", .null)
        case nil: throw failure("a value is missing")
        default: return try number()
        }
    }

    mutating func skipSpace() {
        while let next = peek, next == 0x20 || next == 0x0A || next == 0x0D || next == 0x09 { place += 1 }
    }

    func failure(_ what: String) -> CRDTError {
        let before = bytes[..<min(place, bytes.count)]
        let line = before.count { $0 == 0x0A } + 1
        let column = before.reversed().prefix { $0 != 0x0A }.count { $0 & 0xC0 != 0x80 } + 1
        return CRDTError(.invalidJSON, "invalid JSON: \(what), at line \(line), column \(column)")
    }

    private var peek: UInt8? { place < bytes.count ? bytes[place] : nil }

    private mutating func take(_ expected: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: expected) else { return false }
        place += 1
        return true
    }

    private mutating func literal(_ word: StaticString, _ value: Value) throws(CRDTError) -> Value {
        let isNext = word.withUTF8Buffer { bytes[place...].starts(with: $0) }
        guard isNext else { throw failure("an unknown word") }
        place += word.utf8CodeUnitCount
        return value
    }

    private mutating func object(depth: Int) throws(CRDTError) -> ObjectValue {
        place += 1
        var entries: [ObjectValue.Entry] = []
        // By bytes: Swift takes some texts for equal that are different keys. Only of an object with many.
        var keys: Set<[UInt8]> = []
        skipSpace()
        if take("}") { return ObjectValue() }
        repeat {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else { throw failure("a key must be a string") }
            let start = place
            let key = try string()
            if isStrict, isKnown(key, in: entries, &keys) {
                place = start
                throw failure("the key \"\(Self.shown(key))\" appears twice in one object")
            }
            skipSpace()
            guard take(":") else { throw failure("a colon is missing") }
            entries.append((key: key, value: try value(depth: depth + 1)))
            skipSpace()
        } while take(",")
        guard take("}") else { throw failure("a comma or closing brace is missing") }
        return isStrict ? ObjectValue(unique: entries) : ObjectValue(entries)
    }

    /// Returns whether a key is among the earlier ones of its object: few are compared one by one.
    private func isKnown(
        _ key: String, in entries: [ObjectValue.Entry], _ keys: inout Set<[UInt8]>
    ) -> Bool {
        guard entries.count >= Limits.comparedKeys else {
            return entries.contains { utf8Equal($0.key, key) }
        }
        if keys.isEmpty { keys = Set(entries.map { Array($0.key.utf8) }) }
        return !keys.insert(Array(key.utf8)).inserted
    }

    private mutating func array(depth: Int) throws(CRDTError) -> [Value] {
        place += 1
        var elements: [Value] = []
        skipSpace()
        if take("]") { return [] }
        repeat {
            elements.append(try value(depth: depth + 1))
            skipSpace()
        } while take(",")
        guard take("]") else { throw failure("a comma or closing bracket is missing") }
        return elements
    }

    /// A string without escapes, as nearly all are, is one run, and validated where it stands.
    private mutating func string() throws(CRDTError) -> String {
        place += 1
        var raw: [UInt8] = []
        while true {
            let start = place
            place = bytes.withUnsafeBufferPointer { JSONRun.end(in: $0, from: start) }
            let run = bytes[start..<place]
            switch peek {
            case UInt8(ascii: "\"")?:
                place += 1
                if !raw.isEmpty { raw.append(contentsOf: run) }
                let text =
                    raw.isEmpty
                    ? String(validating: run, as: UTF8.self) : String(validating: raw, as: UTF8.self)
                guard let text else { throw failure("a string is not UTF-8") }
                return text
            case UInt8(ascii: "\\")?:
                place += 1
                raw.append(contentsOf: run)
                raw.append(contentsOf: try escape())
                try count.step()
            case nil: throw failure("a string does not end")
            default:
                place += 1
                throw failure("a control character in a string")
            }
        }
    }

    private mutating func escape() throws(CRDTError) -> [UInt8] {
        guard let kind = peek else { throw failure("a string does not end") }
        place += 1
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [kind]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return try unicode()
        default: throw failure("an unknown escape")
        }
    }

    private mutating func unicode() throws(CRDTError) -> [UInt8] {
        var code = UInt32(try hexadecimal())
        if (0xD800...0xDBFF).contains(code) {
            guard take("\\"), take("u") else { throw failure("half a surrogate pair") }
            let low = UInt32(try hexadecimal())
            guard (0xDC00...0xDFFF).contains(low) else { throw failure("half a surrogate pair") }
            code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(code) else { throw failure("half a surrogate pair") }
        return Array(String(Character(scalar)).utf8)
    }

    private mutating func hexadecimal() throws(CRDTError) -> UInt16 {
        guard place + 4 <= bytes.count else { throw failure("four hexadecimal digits are missing") }
        var code: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = Character(Unicode.Scalar(bytes[place])).hexDigitValue else {
                throw failure("four hexadecimal digits are missing")
            }
            code = code << 4 | UInt16(digit)
            place += 1
        }
        return code
    }

    private mutating func number() throws(CRDTError) -> Value {
        let start = place
        _ = take("-")
        if !take("0") { try digits() }
        var isInteger = true
        if take(".") {
            isInteger = false
            try digits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            isInteger = false
            place += 1
            if !take("+") { _ = take("-") }
            try digits()
        }
        let text = String(decoding: bytes[start..<place], as: UTF8.self)
        if isInteger, text != "-0" {
            if let number = Int64(text) { return .int(number) }
            guard roundsIntegers else {
                place = start
                throw failure(
                    "the integer \(Self.shown(text)) is beyond 64 bits (a string keeps its digits, "
                        + "an exponent makes it a double)")
            }
        }
        guard let number = Double(text), number.isFinite else { throw failure("a number out of range") }
        if isStrict, number == 0, Self.hasDigits(text) {
            place = start
            throw failure("a number out of range")
        }
        return .double(number)
    }

    /// Returns whether a number's text has a digit other than 0 before its exponent.
    private static func hasDigits(_ text: String) -> Bool {
        text.utf8.prefix { $0 | 0x20 != UInt8(ascii: "e") }.contains { (0x31...0x39).contains($0) }
    }

    /// A bounded beginning of a text from the input, for a message.
    private static func shown(_ text: String) -> String {
        text.count <= Limits.shownCharacters ? text : "\(text.prefix(Limits.shownCharacters))…"
    }

    private mutating func digits() throws(CRDTError) {
        guard let first = peek, (0x30...0x39).contains(first) else { throw failure("not a value") }
        while let next = peek, (0x30...0x39).contains(next) { place += 1 }
    }
}
