import CRDT

/// A document as JSON for PostgreSQL and for people: the newest variant of each key, as an undeclared
/// SELECT shows it, with `_id`.
///
/// JSON, and even more so jsonb, cannot express some of our values. These replace them (README):
///
/// | value | in the body |
/// |---|---|
/// | U+0000 in a text or key | `␀` (U+2400) |
/// | NaN, infinities | `"NaN"`, `"Infinity"`, `"-Infinity"` |
/// | -0.0 | `0.0` |
/// | a whole double beyond 2^53 | its digits, which read as an integer |
/// | binary | `{"~binary": "base64"}` |
/// | ATTACHMENT | `{"~attachment": {"id", "len", "metadata"}}` |
/// | COUNTER | its value |
///
/// A body without any replacement is *plain*: it equals the result of a SELECT without declared types
/// outside of strict mode. A predicate may be pushed into SQL on plain bodies only.
struct ReadableBody {
    /// The JSON text as UTF-8.
    private(set) var text: [UInt8] = []
    /// True if no value had to be replaced.
    private(set) var isPlain = true

    /// The body of a document; `id` is the value of `_id`.
    init(_ document: DocumentReader, id: Value) throws {
        text.reserveCapacity(512)
        text.append(UInt8(ascii: "{"))
        key("_id")
        value(id)
        try document.root.forEach { (name, field) throws in
            // `_id` never means a field of that name.
            if utf8Equal(name, "_id") {
                isPlain = false
                return
            }
            try add(name, field)
        }
        text.append(UInt8(ascii: "}"))
    }

    /// An id on its own, for people: a text as it is, anything else as JSON.
    static func key(of id: Value) -> [UInt8] {
        if case .string(let text) = id { return Array(ProjectionNames.readable(text).utf8) }
        var printer = ReadableBody()
        printer.value(id)
        return printer.text
    }

    private init() {}

    private mutating func add(_ name: String, _ field: FieldReader) throws {
        separate()
        key(name)
        switch field.newestKind {
        case .map?: try map(try field.map())
        case .attachment?: marked("~attachment", try field.attachment() ?? .null)
        case .counter?: value(try field.counter() ?? .null)
        case .register?: value(try field.register() ?? .null)
        case nil: value(.null)
        }
    }

    private mutating func map(_ map: MapReader?) throws {
        text.append(UInt8(ascii: "{"))
        try map?.forEach { (name, field) throws in try add(name, field) }
        text.append(UInt8(ascii: "}"))
    }

    // MARK: Text

    private mutating func separate() {
        if text.last != UInt8(ascii: "{"), text.last != UInt8(ascii: "[") { text.append(UInt8(ascii: ",")) }
    }

    private mutating func key(_ name: String) {
        quote(name)
        text.append(UInt8(ascii: ":"))
    }

    private mutating func literal(_ word: String) { text.append(contentsOf: word.utf8) }

    private mutating func value(_ value: Value) {
        switch value {
        case .null: literal("null")
        case .bool(let flag): literal(flag ? "true" : "false")
        case .int(let number): literal(String(number))
        case .double(let number): double(number)
        case .string(let string): quote(string)
        case .binary: marked("~binary", value)
        case .array(let elements):
            text.append(UInt8(ascii: "["))
            for element in elements {
                separate()
                self.value(element)
            }
            text.append(UInt8(ascii: "]"))
        case .object(let object):
            text.append(UInt8(ascii: "{"))
            for entry in object.entries {
                separate()
                key(entry.key)
                self.value(entry.value)
            }
            text.append(UInt8(ascii: "}"))
        }
    }

    private mutating func double(_ number: Double) {
        guard number.isFinite else {
            isPlain = false
            return literal(number.isNaN ? "\"NaN\"" : number < 0 ? "\"-Infinity\"" : "\"Infinity\"")
        }
        // From these magnitudes on, a double's shortest text has an exponent instead of a fraction.
        if number.magnitude >= 0x1p53 || number == 0 && number.sign == .minus { isPlain = false }
        literal(number == 0 ? "0.0" : number.description)
    }

    /// A value that JSON lacks, as an object whose only key names its kind.
    private mutating func marked(_ marker: String, _ value: Value) {
        isPlain = false
        text.append(UInt8(ascii: "{"))
        key(marker)
        if case .binary = value { literal(JSONText.print(value)) } else { self.value(value) }
        text.append(UInt8(ascii: "}"))
    }

    private mutating func quote(_ string: String) {
        text.append(UInt8(ascii: "\""))
        var string = string
        string.withUTF8 { bytes in
            guard bytes.contains(where: { $0 < 0x20 || $0 == 0x22 || $0 == 0x5C }) else {
                return text.append(contentsOf: bytes)
            }
            for byte in bytes { escape(byte) }
        }
        text.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case 0:
            isPlain = false
            literal("\u{2400}")
        case 0x22, 0x5C:
            text.append(0x5C)
            text.append(byte)
        case 0..<0x20:
            let digits = String(byte, radix: 16)
            literal(byte < 16 ? "\\u000" + digits : "\\u00" + digits)
        default: text.append(byte)
        }
    }
}
