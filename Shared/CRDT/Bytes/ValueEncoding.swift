// The encoding of a value inside documents and deltas: one canonical form, skippable without decoding.
//
//   0x00 null · 0x01 false · 0x02 true · 0x03 integer (zigzag varint) · 0x04 double (8 bytes)
//   0x05 string (length, UTF-8) · 0x06 binary (length, bytes) · 0x07 array (byte length, count, values)
//   0x08 object (byte length, count, sorted keys with values)
//   0x40…0x7F string of 0…63 bytes · 0x80…0xFF integer 0…127
//
// Shortest form is required, object keys ascend strictly, every NaN is the quiet NaN 0x7FF8…0, -0.0 stays.

extension ByteWriter {
    mutating func value(_ value: Value) {
        switch value {
        case .null: byte(0x00)
        case .bool(let flag): byte(flag ? 0x02 : 0x01)
        case .int(let number): integer(number)
        case .double(let number):
            byte(0x04)
            fixed64(number.isNaN ? Double.nan.bitPattern : number.bitPattern)
        case .string(let text):
            let length = text.utf8.count
            if length < 64 {
                byte(0x40 | UInt8(length))
            } else {
                byte(0x05)
                count(length)
            }
            utf8(text)
        case .binary(let run):
            byte(0x06)
            count(run.count)
            raw(run)
        case .array(let elements):
            byte(0x07)
            sized { inner in
                inner.count(elements.count)
                for element in elements { inner.value(element) }
            }
        case .object(let object):
            byte(0x08)
            sized { inner in
                inner.count(object.count)
                for entry in object.sorted {
                    inner.text(entry.key)
                    inner.value(entry.value)
                }
            }
        }
    }

    private mutating func integer(_ number: Int64) {
        if (0..<128).contains(number) {
            byte(0x80 | UInt8(number))
        } else {
            byte(0x03)
            varint(UInt64(bitPattern: (number << 1) ^ (number >> 63)))
        }
    }
}

extension ByteReader {
    /// Decodes one value and checks that it is canonical. `depth` is the number of levels already entered.
    mutating func value(depth: Int) throws(CRDTError) -> Value {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let start = place
        let tag = try byte()
        switch tag {
        case 0x00: return .null
        case 0x01: return .bool(false)
        case 0x02: return .bool(true)
        case 0x03: return .int(try integer(start: start))
        case 0x04: return .double(try double(start: start))
        case 0x05: return .string(try longText(start: start))
        case 0x06: return .binary([UInt8](try run(try count())))
        case 0x07: return .array(try array(depth: depth))
        case 0x08: return .object(try object(depth: depth))
        case 0x40...0x7F: return .string(try text(length: Int(tag & 0x3F)))
        case 0x80...0xFF: return .int(Int64(tag & 0x7F))
        default: throw .malformed("unknown value tag \(tag)", at: start)
        }
    }

    /// Steps over one value with all checks of `value(depth:)`, without decoding it.
    mutating func checkValue(depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let start = place
        let tag = try byte()
        switch tag {
        case 0x00, 0x01, 0x02, 0x80...0xFF: return
        case 0x03: _ = try integer(start: start)
        case 0x04: _ = try double(start: start)
        case 0x05: try checkText(length: try longTextLength(start: start))
        case 0x06: _ = try run(try count())
        case 0x07:
            let end = try count() + place
            for _ in 0..<(try count()) { try checkValue(depth: depth + 1) }
            guard place == end else { throw .malformed("an array's length is wrong", at: place) }
        case 0x08:
            let end = try count() + place
            var last: UnsafeRawBufferPointer?
            for _ in 0..<(try count()) {
                try checkKey(after: &last)
                try checkValue(depth: depth + 1)
            }
            guard place == end else { throw .malformed("an object's length is wrong", at: place) }
        case 0x40...0x7F: try checkText(length: Int(tag & 0x3F))
        default: throw .malformed("unknown value tag \(tag)", at: start)
        }
    }

    /// The bytes of a string, not decoded; nil for any other value.
    mutating func textInPlace() throws(CRDTError) -> UnsafeRawBufferPointer? {
        switch try byte() {
        case 0x05: try run(try count())
        case let tag where tag >> 6 == 1: try run(Int(tag & 0x3F))
        default: nil
        }
    }

    /// Steps over one value without decoding it.
    mutating func skipValue() throws(CRDTError) {
        let start = place
        let tag = try byte()
        switch tag {
        case 0x00, 0x01, 0x02, 0x80...0xFF: break
        case 0x03: _ = try varint()
        case 0x04: _ = try run(8)
        case 0x05, 0x06, 0x07, 0x08: _ = try run(try count())
        case 0x40...0x7F: _ = try run(Int(tag & 0x3F))
        default: throw .malformed("unknown value tag \(tag)", at: start)
        }
    }

    private mutating func integer(start: Int) throws(CRDTError) -> Int64 {
        let zigzag = try varint()
        let number = Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1)
        guard !(0..<128).contains(number) else {
            throw .malformed("an integer is not in its shortest form", at: start)
        }
        return number
    }

    private mutating func double(start: Int) throws(CRDTError) -> Double {
        let bits = try fixed64()
        let number = Double(bitPattern: bits)
        guard !number.isNaN || bits == Double.nan.bitPattern else {
            throw .malformed("not the one NaN", at: start)
        }
        return number
    }

    private mutating func longText(start: Int) throws(CRDTError) -> String {
        try text(length: try longTextLength(start: start))
    }

    private mutating func longTextLength(start: Int) throws(CRDTError) -> Int {
        let length = try count()
        guard length >= 64 else { throw .malformed("a string is not in its shortest form", at: start) }
        return length
    }

    private mutating func array(depth: Int) throws(CRDTError) -> [Value] {
        let length = try count()
        let end = place + length
        let number = try count()
        var elements: [Value] = []
        elements.reserveCapacity(min(number, 1_024))
        for _ in 0..<number { elements.append(try value(depth: depth + 1)) }
        guard place == end else { throw .malformed("an array's length is wrong", at: place) }
        return elements
    }

    private mutating func object(depth: Int) throws(CRDTError) -> ObjectValue {
        let length = try count()
        let end = place + length
        let number = try count()
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(min(number, 1_024))
        var last: UnsafeRawBufferPointer?
        for _ in 0..<number {
            let key = try key(after: &last)
            entries.append((key: key, value: try value(depth: depth + 1)))
        }
        guard place == end else { throw .malformed("an object's length is wrong", at: place) }
        return ObjectValue(unique: entries)
    }
}

extension CRDTError {
    static var tooDeep: CRDTError { CRDTError(.tooDeep, "nested deeper than \(Limits.nestingDepth) levels") }
}
