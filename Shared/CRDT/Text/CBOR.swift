/// CBOR (RFC 8949) for values: deterministic encoding (section 4.2: shortest forms, keys sorted bytewise),
/// and a decoder for any encoding of an item that a value can hold.
///
/// Doubles are written in the shortest of the three float widths that keeps them. A float of any width reads
/// back as a double, so `1` and `1.0` stay different. Tags are skipped, `undefined` reads as null, map keys
/// must be strings.
public enum CBOR {
    /// The deterministic encoding of a value.
    public static func encode(_ value: Value) -> [UInt8] {
        var writer = CBORWriter()
        writer.value(value)
        return writer.bytes
    }

    /// Decodes exactly one item. Throws `invalidCBOR`, `truncated`, `tooDeep` or `invalidUTF8`, and
    /// `tooManyValues` and `interrupted` as the bounds say.
    public static func decode(
        _ bytes: [UInt8], within bounds: ParsingBounds? = nil
    ) throws(CRDTError) -> Value {
        let result = bytes.withUnsafeBytes { raw -> Result<Value, CRDTError> in
            Result { () throws(CRDTError) -> Value in
                var decoder = CBORDecoder(reader: ByteReader(raw))
                decoder.count = ValueCount(bounds)
                let value = try decoder.value(depth: 0)
                try decoder.reader.requireEnd()
                return value
            }
        }
        return try result.get()
    }
}

/// Appends CBOR items. Sessions write their frames with it.
public struct CBORWriter: Sendable {
    /// The bytes written so far.
    public private(set) var bytes: [UInt8] = []

    /// An empty writer.
    public init() {}

    /// Makes room for about `count` bytes, which saves moving the bytes as they grow.
    public mutating func reserve(_ count: Int) { bytes.reserveCapacity(count) }

    /// An item's head: major type 0…7 and its argument in the shortest form.
    public mutating func head(_ major: UInt8, _ argument: UInt64) {
        let type = major << 5
        switch argument {
        case 0..<24: bytes.append(type | UInt8(argument))
        case 24...0xFF: append(type | 24, argument, width: 1)
        case 0x100...0xFFFF: append(type | 25, argument, width: 2)
        case 0x1_0000...0xFFFF_FFFF: append(type | 26, argument, width: 4)
        default: append(type | 27, argument, width: 8)
        }
    }

    /// An unsigned integer.
    public mutating func unsigned(_ number: UInt64) { head(0, number) }
    /// A byte string.
    public mutating func binary(_ run: some Collection<UInt8>) {
        head(2, UInt64(run.count))
        bytes.append(contentsOf: run)
    }
    /// The fast path for a byte array, the most frequent argument.
    public mutating func binary(_ run: [UInt8]) {
        head(2, UInt64(run.count))
        bytes.append(contentsOf: run)
    }
    /// A text string.
    public mutating func text(_ text: String) {
        head(3, UInt64(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }
    /// The head of an array; its elements follow.
    public mutating func array(count: Int) { head(4, UInt64(count)) }
    /// The head of a map; its keys and values follow.
    public mutating func map(count: Int) { head(5, UInt64(count)) }
    /// True or false.
    public mutating func bool(_ flag: Bool) { bytes.append(flag ? 0xF5 : 0xF4) }
    /// Null.
    public mutating func null() { bytes.append(0xF6) }

    /// Any value, deterministically.
    public mutating func value(_ value: Value) {
        switch value {
        case .null: null()
        case .bool(let flag): bool(flag)
        case .int(let number):
            if number >= 0 { head(0, UInt64(number)) } else { head(1, UInt64(bitPattern: ~number)) }
        case .double(let number): double(number)
        case .string(let string): text(string)
        case .binary(let run): binary(run)
        case .array(let elements):
            array(count: elements.count)
            for element in elements { self.value(element) }
        case .object(let object):
            // RFC 8949 section 4.2.1: keys sort by their encoded bytes, so a shorter key comes first.
            let entries = object.entries.sorted { left, right in
                left.key.utf8.count != right.key.utf8.count
                    ? left.key.utf8.count < right.key.utf8.count : utf8Precedes(left.key, right.key)
            }
            map(count: entries.count)
            for entry in entries {
                text(entry.key)
                self.value(entry.value)
            }
        }
    }

    private mutating func double(_ number: Double) {
        if number.isNaN { return append(0xF9, 0x7E00, width: 2) }
        let single = Float(number)
        guard Double(single) == number else { return append(0xFB, number.bitPattern, width: 8) }
        if let half = HalfFloat.bits(of: single) { return append(0xF9, UInt64(half), width: 2) }
        append(0xFA, UInt64(single.bitPattern), width: 4)
    }

    private mutating func append(_ head: UInt8, _ argument: UInt64, width: Int) {
        bytes.append(head)
        for index in stride(from: width - 1, through: 0, by: -1) {
            bytes.append(UInt8(truncatingIfNeeded: argument >> UInt64(8 * index)))
        }
    }
}

/// IEEE 754 half precision, written here because not every platform that we build on has `Float16`.
enum HalfFloat {
    /// The 16 bits of a float; nil unless half precision holds it exactly.
    static func bits(of number: Float) -> UInt16? {
        let sign = UInt16(number.sign == .minus ? 0x8000 : 0)
        if number == 0 { return sign }
        if number.isInfinite { return sign | 0x7C00 }
        let exponent = Int(number.exponent)
        let fraction = number.significandBitPattern
        if (-14...15).contains(exponent) {
            guard fraction & 0x1FFF == 0 else { return nil }
            return sign | UInt16(exponent + 15) << 10 | UInt16(fraction >> 13)
        }
        guard (-24 ... -15).contains(exponent) else { return nil }
        let whole = fraction | 0x80_0000
        let shift = UInt32(-1 - exponent)
        guard whole & ((1 << shift) - 1) == 0 else { return nil }
        return sign | UInt16(whole >> shift)
    }

    /// The number that 16 bits stand for.
    static func number(of bits: UInt16) -> Double {
        let sign: Double = bits & 0x8000 == 0 ? 1 : -1
        let exponent = Int(bits >> 10 & 0x1F)
        let fraction = Double(bits & 0x3FF)
        switch exponent {
        case 0: return sign * fraction * 0x1p-24
        case 31: return fraction == 0 ? sign * .infinity : .nan
        default:
            return sign * (1 + fraction / 1024) * Double(sign: .plus, exponent: exponent - 15, significand: 1)
        }
    }
}
