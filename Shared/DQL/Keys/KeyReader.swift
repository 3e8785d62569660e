import CRDT

/// A key cannot be read: the store is damaged, and its index has to be built again.
public struct KeyDamage: Error {}

/// Decodes the values of a key (`KeyWriter`). Only for keys that were neither cut nor ambiguous.
public struct KeyReader {
    private let bytes: UnsafeRawBufferPointer
    private var place = 0
    /// The inversion mask: 0xFF within a part in descending order.
    private var mask: UInt8 = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The values of all parts. Throws for bytes that `KeyWriter` cannot have written.
    public static func values(
        of keys: [IndexDescription.Key], in bytes: UnsafeRawBufferPointer
    ) throws(KeyDamage) -> [Value?] {
        var reader = KeyReader(bytes)
        var values: [Value?] = []
        values.reserveCapacity(keys.count)
        for key in keys {
            reader.mask = key.isDescending ? 0xFF : 0
            let tag = try reader.byte()
            values.append(tag == KeyTag.least(.missing) ? nil : try reader.value(tag))
        }
        return values
    }

    private mutating func value(_ tag: UInt8) throws(KeyDamage) -> Value {
        switch tag {
        case 0x10: return .bool(false)
        case 0x11: return .bool(true)
        case 0x20: return try number()
        case 0x30: return .binary(try run())
        case KeyTag.string: return .string(String(decoding: try run(), as: UTF8.self))
        case 0x50:
            var elements: [Value] = []
            while true {
                let tag = try byte()
                if tag == KeyTag.end { return .array(elements) }
                elements.append(try value(tag))
            }
        case 0x60: return .object(try object())
        case 0x70: return .null
        default: throw KeyDamage()
        }
    }

    private mutating func object() throws(KeyDamage) -> ObjectValue {
        let count = try fixed(4)
        var keys: [String] = []
        for _ in 0..<count { keys.append(String(decoding: try run(), as: UTF8.self)) }
        var entries: [ObjectValue.Entry] = []
        for key in keys { entries.append((key: key, value: try value(try byte()))) }
        return ObjectValue(unique: entries)
    }

    private mutating func number() throws(KeyDamage) -> Value {
        let bits = try fixed(8)
        guard bits != 0 else { return .double(.nan) }
        let double = Double(bitPattern: bits >> 63 == 1 ? bits & ~(1 << 63) : ~bits)
        let above = abs(double) >= 0x1p53 ? try fixed(2) : 0
        guard double == double.rounded(.towardZero), let whole = Int64(exactly: double) else {
            return .double(double)
        }
        return .int(whole + Int64(above))
    }

    private mutating func run() throws(KeyDamage) -> [UInt8] {
        var run: [UInt8] = []
        while true {
            switch try byte() {
            case KeyTag.end: return run
            case 1: run.append(try byte() &- 1)
            case let byte: run.append(byte)
            }
        }
    }

    private mutating func fixed(_ count: Int) throws(KeyDamage) -> UInt64 {
        var number: UInt64 = 0
        for _ in 0..<count { number = number << 8 | UInt64(try byte()) }
        return number
    }

    private mutating func byte() throws(KeyDamage) -> UInt8 {
        guard place < bytes.count else { throw KeyDamage() }
        defer { place += 1 }
        return bytes[place] ^ mask
    }
}
