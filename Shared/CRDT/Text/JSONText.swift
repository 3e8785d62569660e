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
    /// order mark is skipped. Throws `tooManyValues` and `interrupted` as the bounds say.
    public static func parseStrictly(
        _ bytes: [UInt8], within bounds: ParsingBounds? = nil
    ) throws(CRDTError) -> Value {
        var parser = JSONParser(bytes: bytes, isStrict: true)
        parser.count = ValueCount(bounds)
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
        printer.add(value)
        return String(decoding: printer.bytes, as: UTF8.self)
    }

    /// The UTF-8 bytes of `print`, for answers, which are sent as bytes.
    public static func bytes(_ value: Value) -> [UInt8] {
        var printer = JSONPrinter()
        printer.add(value)
        return printer.bytes
    }
}

extension Value {
    /// The first number in it that JSON cannot hold, an infinity or NaN; nil if there is none. `JSONText`
    /// prints null in its place.
    public var unwritableNumber: Double? {
        switch self {
        case .double(let number) where !number.isFinite: number
        case .array(let elements): elements.lazy.compactMap { $0.unwritableNumber }.first
        case .object(let object): object.entries.lazy.compactMap { $0.value.unwritableNumber }.first
        default: nil
        }
    }
}
