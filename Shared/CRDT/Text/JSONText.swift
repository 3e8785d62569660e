/// Converts JSON text (RFC 8259) to values and back, and keeps integers and doubles apart.
///
/// Written here because the platform's parser turns `1.0` into `1`. A number without fraction and exponent
/// is an integer and has to fit 64 bits, since a double would be another number; any other is a double. The
/// last of duplicate keys wins. Printing always writes a double with fraction or exponent, a binary as a
/// base64 string, and NaN and infinities as null because JSON has no word for them.
public enum JSONText {
    /// Parses exactly one JSON text. Throws `invalidJSON` with line and column, or `tooDeep`.
    public static func parse(_ text: String) throws(CRDTError) -> Value { try parse(Array(text.utf8)) }

    /// As `parse(_:)`, but from UTF-8 bytes.
    ///
    /// - Parameter roundsIntegers: an integer beyond 64 bits becomes the nearest double: for texts of others
    ///   whose numbers are only shown.
    public static func parse(_ bytes: [UInt8], roundsIntegers: Bool = false) throws(CRDTError) -> Value {
        try parse(JSONParser(bytes: bytes, roundsIntegers: roundsIntegers))
    }

    /// As `parse(_:)`, but refuses texts of which a part would be lost, for values that a person or a program
    /// typed: a key that appears twice in an object, and a number too small for a double. A leading byte
    /// order mark is skipped.
    public static func parseStrictly(_ bytes: [UInt8]) throws(CRDTError) -> Value {
        var parser = JSONParser(bytes: bytes, isStrict: true)
        parser.skipByteOrderMark()
        return try parse(parser)
    }

    private static func parse(_ start: JSONParser) throws(CRDTError) -> Value {
        var parser = start
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.place == parser.bytes.count else { throw parser.failure("text follows the value") }
        return value
    }

    /// The shortest text of a value. Keys keep their order, or are sorted by bytes.
    public static func print(_ value: Value, sortedKeys: Bool = false) -> String {
        var printer = JSONPrinter(sortedKeys: sortedKeys)
        printer.value(value)
        return printer.text
    }
}

extension Value {
    /// The first number in it that JSON cannot hold, an infinity or NaN; nil if there is none. `JSONText`
    /// prints null in its place.
    public var unwritableNumber: Double? {
        switch self {
        case .double(let number) where !number.isFinite: number
        case .array(let elements): elements.lazy.compactMap(\.unwritableNumber).first
        case .object(let object): object.entries.lazy.compactMap(\.value.unwritableNumber).first
        default: nil
        }
    }
}

private struct JSONPrinter {
    let sortedKeys: Bool
    var text = ""

    init(sortedKeys: Bool) { self.sortedKeys = sortedKeys }

    mutating func value(_ value: Value) {
        switch value {
        case .null: text += "null"
        case .bool(let flag): text += flag ? "true" : "false"
        case .int(let number): text += String(number)
        case .double(let number): text += number.isFinite ? number.description : "null"
        case .string(let string): quote(string)
        case .binary(let run): quote(Base64.encode(run))
        case .array(let elements):
            text += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                self.value(element)
            }
            text += "]"
        case .object(let object):
            text += "{"
            for (index, entry) in (sortedKeys ? object.sorted : object.entries).enumerated() {
                if index > 0 { text += "," }
                quote(entry.key)
                text += ":"
                self.value(entry.value)
            }
            text += "}"
        }
    }

    private mutating func quote(_ string: String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case "\u{8}": text += "\\b"
            case "\u{C}": text += "\\f"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

/// Base64 with padding (RFC 4648 section 4), for binaries inside JSON.
enum Base64 {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func encode(_ bytes: [UInt8]) -> String {
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.enumerated().reduce(UInt32(0)) {
                $0 | UInt32($1.element) << UInt32(16 - 8 * $1.offset)
            }
            for index in 0..<4 {
                let isPadding = index > group.count
                result.append(
                    isPadding ? UInt8(ascii: "=") : alphabet[Int(bits >> UInt32(18 - 6 * index) & 63)])
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
