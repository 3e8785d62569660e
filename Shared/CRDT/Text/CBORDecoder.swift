/// Reads CBOR items one by one, for values and for frames. Never allocates more than the remaining bytes can
/// fill.
public struct CBORDecoder {
    var reader: ByteReader
    /// Counts the values, for an item of somebody else.
    var count = ValueCount(nil)

    init(reader: ByteReader) { self.reader = reader }

    /// A decoder over bytes that the caller keeps in place while the decoder is used.
    public init(_ bytes: UnsafeRawBufferPointer) { reader = ByteReader(bytes) }

    /// True if everything was read.
    public var isAtEnd: Bool { reader.isAtEnd }

    /// The head of the next item: major type and argument. Indefinite lengths are refused.
    public mutating func head() throws(CRDTError) -> (major: UInt8, argument: UInt64) {
        let first = try reader.byte()
        let major = first >> 5
        switch first & 0x1F {
        case let small where small < 24: return (major, UInt64(small))
        case 24: return (major, UInt64(try reader.fixed(width: 1)))
        case 25: return (major, UInt64(try reader.fixed(width: 2)))
        case 26: return (major, UInt64(try reader.fixed(width: 4)))
        case 27: return (major, try reader.fixed64())
        default: throw invalid("an item of indefinite or reserved length")
        }
    }

    /// An unsigned integer.
    public mutating func unsigned() throws(CRDTError) -> UInt64 { try argument(0, "an unsigned integer") }
    /// A byte string.
    public mutating func binary() throws(CRDTError) -> [UInt8] {
        [UInt8](try reader.run(try length(2, "a byte string")))
    }
    /// A text string.
    public mutating func text() throws(CRDTError) -> String {
        try reader.text(length: try length(3, "a text string"))
    }
    /// The head of an array: the number of its elements.
    public mutating func array() throws(CRDTError) -> Int { try length(4, "an array") }
    /// The head of a map: the number of its pairs.
    public mutating func map() throws(CRDTError) -> Int { try length(5, "a map") }
    /// True or false.
    public mutating func bool() throws(CRDTError) -> Bool {
        switch try reader.byte() {
        case 0xF4: return false
        case 0xF5: return true
        default: throw invalid("expected a boolean")
        }
    }

    /// Any item that a value can hold.
    public mutating func value(depth: Int = 0) throws(CRDTError) -> Value {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        try count.add()
        let start = reader
        let (major, argument) = try head()
        switch major {
        case 0:
            guard let number = Int64(exactly: argument) else { return .double(Double(argument)) }
            return .int(number)
        case 1:
            guard let number = Int64(exactly: argument) else { return .double(-1 - Double(argument)) }
            return .int(-1 - number)
        case 2: return .binary([UInt8](try reader.run(try bounded(argument))))
        case 3: return .string(try reader.text(length: try bounded(argument)))
        case 4:
            var elements: [Value] = []
            for _ in 0..<(try bounded(argument)) { elements.append(try value(depth: depth + 1)) }
            return .array(elements)
        case 5: return .object(try object(try bounded(argument), depth: depth))
        case 6: return try value(depth: depth + 1)
        default: return try simple(start)
        }
    }

    private mutating func object(_ count: Int, depth: Int) throws(CRDTError) -> ObjectValue {
        var entries: [ObjectValue.Entry] = []
        for _ in 0..<count {
            let key = try text()
            entries.append((key: key, value: try value(depth: depth + 1)))
        }
        return ObjectValue(entries)
    }

    private mutating func simple(_ start: ByteReader) throws(CRDTError) -> Value {
        reader = start
        switch try reader.byte() {
        case 0xF4: return .bool(false)
        case 0xF5: return .bool(true)
        case 0xF6, 0xF7: return .null
        case 0xF9: return .double(HalfFloat.number(of: UInt16(try reader.fixed(width: 2))))
        case 0xFA: return .double(Double(Float(bitPattern: try reader.fixed(width: 4))))
        case 0xFB: return .double(Double(bitPattern: try reader.fixed64()))
        default: throw invalid("a simple value that is unknown here")
        }
    }

    private mutating func argument(_ major: UInt8, _ what: String) throws(CRDTError) -> UInt64 {
        let (found, argument) = try head()
        guard found == major else { throw invalid("expected \(what)") }
        return argument
    }

    private mutating func length(_ major: UInt8, _ what: String) throws(CRDTError) -> Int {
        try bounded(try argument(major, what))
    }

    private func bounded(_ argument: UInt64) throws(CRDTError) -> Int {
        guard argument <= UInt64(reader.remaining) else { throw .truncated(at: reader.place) }
        return Int(argument)
    }

    private func invalid(_ what: String) -> CRDTError {
        CRDTError(.invalidCBOR, "\(what), at byte \(reader.place)")
    }
}
