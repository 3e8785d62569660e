import CRDT

/// A value as bytes: two values have equal bytes exactly when `ValueOrder.areEqual`. Hashed by DISTINCT,
/// GROUP BY and sets for IN. Numbers are one type here: `1` and `1.0` are one key.
struct ValueKey: Hashable, Sendable {
    private(set) var bytes: [UInt8] = []

    init() {}

    init(_ value: Value?) { append(value) }

    mutating func append(_ value: Value?) {
        bytes.append(UInt8(ValueOrder.rank(value)))
        switch value {
        case nil, .null?: break
        case .bool(let flag)?: bytes.append(flag ? 1 : 0)
        case .int(let number)?: append(integer: number)
        case .double(let number)?: append(double: number)
        case .string(let text)?:
            append(count: text.utf8.count)
            bytes.append(contentsOf: text.utf8)
        case .binary(let run)?:
            append(count: run.count)
            bytes.append(contentsOf: run)
        case .array(let elements)?:
            append(count: elements.count)
            for element in elements { append(element) }
        case .object(let object)?:
            append(count: object.count)
            for entry in object.sorted {
                append(count: entry.key.utf8.count)
                bytes.append(contentsOf: entry.key.utf8)
                append(entry.value)
            }
        }
    }

    /// A double that is a 64-bit integer is written as one.
    private mutating func append(double number: Double) {
        if number >= -0x1p63, number < 0x1p63, number == number.rounded(.towardZero) {
            append(integer: Int64(number))
        } else {
            bytes.append(1)
            append(bits: number.isNaN ? Double.nan.bitPattern : number.bitPattern)
        }
    }

    private mutating func append(integer number: Int64) {
        bytes.append(0)
        append(bits: UInt64(bitPattern: number))
    }

    private mutating func append(count: Int) { append(bits: UInt64(count)) }

    private mutating func append(bits: UInt64) {
        withUnsafeBytes(of: bits.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
