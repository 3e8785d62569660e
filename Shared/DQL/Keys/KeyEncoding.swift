import CRDT

/// Encodes a value as bytes whose bytewise order is the language's collation (`ValueOrder.collate`; a test
/// compares the two). Every store with indexes writes its keys with it.
///
/// One part is a tag and its content:
///
///     0x10 false · 0x11 true
///     0x20 number: 8 bytes, and 2 more where doubles lie further apart than integers
///     0x30 binary, 0x40 string: the bytes, 0x00 written as 01 01 and 0x01 as 01 02, then 0x00
///     0x50 array: the elements, then 0x00
///     0x60 object: 4 bytes count, the keys in order (each as a string's bytes), then the values
///     0x70 null · 0x80 missing
///
/// A number's 8 bytes are the greatest double that does not exceed it, its bits turned so that they sort
/// (NaN is all zeros, and -0.0 is 0.0). From 2^53 on two more bytes are its distance from that double; a
/// double's distance is 0. So `1` and `1.0` have one key, and different numbers have different keys.
///
/// A part in descending order has all its bits inverted. A key is its parts one after the other. No part is
/// a prefix of another, so the first parts decide the order before the second ones count.
///
/// *Truncation.* A part longer than `DQLLimits.indexPartBytes` is cut there. Cutting keeps the order
/// except between values that are cut to the same bytes. A search that cuts its bounds alike and includes
/// them finds too much, never too little. Code that relies on the exact order checks `isTruncated`.
public struct KeyWriter {
    /// The key so far.
    public private(set) var bytes: [UInt8] = []
    /// True if a part was cut.
    public private(set) var isTruncated = false
    /// True if the last part was cut.
    public private(set) var isLastPartCut = false
    /// True if a float was written whose key equals that of an integer or of another float, so that the
    /// value cannot be decoded from the key.
    public private(set) var isAmbiguous = false
    /// The end of the space for the part being written.
    private var end = 0

    /// The most bytes of a part.
    private let limit: Int

    /// A writer of keys whose parts are cut at `limit` bytes.
    public init(partBytes limit: Int = DQLLimits.indexPartBytes) {
        self.limit = limit
        bytes.reserveCapacity(48)
    }

    /// Adds a part.
    public mutating func append(_ value: Value?, isDescending: Bool) {
        let start = begin()
        write(value)
        finish(start, isDescending: isDescending)
    }

    /// Adds the part common to all strings with this prefix.
    mutating func append(prefix text: String, isDescending: Bool) {
        let start = begin()
        bytes.append(KeyTag.string)
        escape(text.utf8)
        finish(start, isDescending: isDescending)
    }

    /// Adds a part of one byte.
    mutating func append(tag: UInt8, isDescending: Bool) {
        isLastPartCut = false
        bytes.append(isDescending ? ~tag : tag)
    }

    private mutating func begin() -> Int {
        isLastPartCut = false
        end = bytes.count + limit
        return bytes.count
    }

    private mutating func finish(_ start: Int, isDescending: Bool) {
        if bytes.count > end {
            bytes.removeLast(bytes.count - end)
            isTruncated = true
            isLastPartCut = true
        }
        if isDescending { for place in start..<bytes.count { bytes[place] = ~bytes[place] } }
    }

    private mutating func write(_ value: Value?) {
        bytes.append(KeyTag.of(value))
        switch value {
        case nil, .null?, .bool?: break
        case .int(let number)?: write(number)
        case .double(let number)?: write(number)
        case .string(let text)?:
            escape(text.utf8)
            bytes.append(KeyTag.end)
        case .binary(let run)?:
            escape(run)
            bytes.append(KeyTag.end)
        case .array(let elements)?:
            for element in elements {
                guard bytes.count <= end else { return }
                write(element)
            }
            bytes.append(KeyTag.end)
        case .object(let object)?: write(object)
        }
    }

    private mutating func write(_ object: ObjectValue) {
        fixed(UInt32(clamping: object.count))
        let entries = object.sorted
        for entry in entries {
            guard bytes.count <= end else { return }
            escape(entry.key.utf8)
            bytes.append(KeyTag.end)
        }
        for entry in entries {
            guard bytes.count <= end else { return }
            write(entry.value)
        }
    }

    private mutating func write(_ number: Double) {
        guard !number.isNaN else { return fixed(UInt64(0)) }
        if number == number.rounded(.towardZero), abs(number) <= 0x1p63 { isAmbiguous = true }
        // Adding zero turns -0.0 into 0.0.
        write(bits: (number + 0.0).bitPattern)
        if abs(number) >= Self.sparse { fixed(UInt16(0)) }
    }

    private mutating func write(_ number: Int64) {
        var below = Double(number)
        if below >= 0x1p63 || Int64(below) > number { below = below.nextDown }
        write(bits: below.bitPattern)
        if abs(below) >= Self.sparse { fixed(UInt16(number - Int64(below))) }
    }

    private mutating func write(bits: UInt64) {
        fixed(bits >> 63 == 0 ? bits | 1 << 63 : ~bits)
    }

    /// From here on the distance between neighbouring doubles is greater than one.
    private static let sparse = 0x1p53

    private mutating func fixed(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private mutating func escape(_ run: some Collection<UInt8>) {
        let room = end - bytes.count + 1
        for byte in run.prefix(max(0, room)) {
            if byte < 2 {
                bytes.append(1)
                bytes.append(byte + 1)
            } else {
                bytes.append(byte)
            }
        }
    }
}

/// The first bytes of parts. Values of one type share the upper four bits.
enum KeyTag {
    static let end: UInt8 = 0x00
    static let string: UInt8 = 0x40

    static func of(_ value: Value?) -> UInt8 {
        switch value {
        case .bool(let flag)?: flag ? 0x11 : 0x10
        case .int?, .double?: 0x20
        case .binary?: 0x30
        case .string?: string
        case .array?: 0x50
        case .object?: 0x60
        case .null?: 0x70
        case nil: 0x80
        }
    }

    /// The least first byte of a type's parts.
    static func least(_ known: ValueClass) -> UInt8 { UInt8(known.rawValue + 1) << 4 }

    /// The greatest first byte of a type's parts.
    static func greatest(_ known: ValueClass) -> UInt8 { least(known) | 0x0F }
}
