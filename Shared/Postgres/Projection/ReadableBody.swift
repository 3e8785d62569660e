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
/// The top-level keys under which something was replaced are *rough*. Under all others the body equals the
/// result of a SELECT without declared types outside of strict mode, so SQL may decide what reads only them.
struct ReadableBody {
    /// The keys under which something was replaced.
    enum Rough: Equatable {
        /// Some keys, perhaps none.
        case keys([String])
        /// All: the name of a key was replaced, or hides the id.
        case all

        /// As the text of an array for PostgreSQL; empty for no keys.
        var text: [UInt8] {
            guard case .keys(let keys) = self else { return Array("{}".utf8) }
            if keys.isEmpty { return [] }
            var text: [UInt8] = [UInt8(ascii: "{")]
            for (place, key) in keys.enumerated() {
                if place > 0 { text.append(UInt8(ascii: ",")) }
                text.append(UInt8(ascii: "\""))
                for byte in key.utf8 {
                    if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                        text.append(UInt8(ascii: "\\"))
                    }
                    text.append(byte)
                }
                text.append(UInt8(ascii: "\""))
            }
            text.append(UInt8(ascii: "}"))
            return text
        }
    }

    /// The JSON text as UTF-8.
    private(set) var text: [UInt8] = []
    /// The keys under which a value had to be replaced.
    private(set) var rough = Rough.keys([])
    /// True if a value was replaced since the present top-level key began.
    private var isReplaced = false

    /// The body of a document; `id` is the value of `_id`.
    init(_ document: DocumentReader, id: Value) throws {
        text.reserveCapacity(512)
        text.append(UInt8(ascii: "{"))
        key("_id")
        value(id)
        close("_id")
        try document.root.forEach { (name, field) throws(CRDTError) in
            // `_id` never means a field of that name.
            if utf8Equal(name, "_id") {
                rough = .all
                return
            }
            if name.utf8.contains(0) { rough = .all }
            try add(name, field)
            close(name)
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

    /// Ends a top-level key.
    private mutating func close(_ name: String) {
        if isReplaced, case .keys(let keys) = rough { rough = .keys(keys + [name]) }
        isReplaced = false
    }

    private mutating func add(_ name: String, _ field: FieldReader) throws(CRDTError) {
        separate()
        key(name)
        switch field.newestKind {
        case .map?: try map(try field.map())
        case .attachment?: marked("~attachment", try field.attachment() ?? .null)
        case .counter?: shown(try field.counter())
        case .register?: shown(try field.register())
        case nil: shown(nil)
        }
    }

    /// A field's value; a field without one stands as null, which a read calls MISSING.
    private mutating func shown(_ read: Value?) {
        if read == nil { isReplaced = true }
        value(read ?? .null)
    }

    private mutating func map(_ map: MapReader?) throws(CRDTError) {
        text.append(UInt8(ascii: "{"))
        try map?.forEach { (name, field) throws(CRDTError) in try add(name, field) }
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
            isReplaced = true
            return literal(number.isNaN ? "\"NaN\"" : number < 0 ? "\"-Infinity\"" : "\"Infinity\"")
        }
        // From these magnitudes on, a double's shortest text has an exponent instead of a fraction.
        if number.magnitude >= 0x1p53 || number == 0 && number.sign == .minus { isReplaced = true }
        literal(number == 0 ? "0.0" : number.description)
    }

    /// A value that JSON lacks, as an object whose only key names its kind.
    private mutating func marked(_ marker: String, _ value: Value) {
        isReplaced = true
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
            isReplaced = true
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
