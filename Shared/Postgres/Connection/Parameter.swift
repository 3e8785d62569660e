/// A statement's parameter, sent in PostgreSQL's binary format.
enum Parameter {
    case int8(Int64)
    case text(String)
    case bytes([UInt8])
    case int8Array([Int64])
    case textArray([String])
    case bytesArray([[UInt8]])
    /// Texts that are at hand as UTF-8.
    case utf8Array([[UInt8]])

    private enum TypeID {
        static let bytea: UInt32 = 17
        static let int8: UInt32 = 20
        static let text: UInt32 = 25
        static let byteaArray: UInt32 = 1_001
        static let textArray: UInt32 = 1_009
        static let int8Array: UInt32 = 1_016
    }

    /// The object id of its type.
    var typeID: UInt32 {
        switch self {
        case .int8: TypeID.int8
        case .text: TypeID.text
        case .bytes: TypeID.bytea
        case .int8Array: TypeID.int8Array
        case .textArray, .utf8Array: TypeID.textArray
        case .bytesArray: TypeID.byteaArray
        }
    }

    /// The binary form.
    var encoded: [UInt8] {
        switch self {
        case .int8(let number): Self.bigEndian(number)
        case .text(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        case .int8Array(let numbers): Self.array(TypeID.int8, numbers.map(Self.bigEndian))
        case .textArray(let texts): Self.array(TypeID.text, texts.map { Array($0.utf8) })
        case .bytesArray(let blobs): Self.array(TypeID.bytea, blobs)
        case .utf8Array(let texts): Self.array(TypeID.text, texts)
        }
    }

    private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    /// One dimension, no nulls: dimensions, null flag, element type, length, lower bound, then the elements.
    private static func array(_ elementType: UInt32, _ elements: [[UInt8]]) -> [UInt8] {
        guard !elements.isEmpty else {
            return bigEndian(Int32(0)) + bigEndian(Int32(0)) + bigEndian(elementType)
        }
        var bytes = bigEndian(Int32(1)) + bigEndian(Int32(0)) + bigEndian(elementType)
        bytes.reserveCapacity(20 + elements.reduce(0) { $0 + 4 + $1.count })
        bytes += bigEndian(Int32(elements.count)) + bigEndian(Int32(1))
        for element in elements {
            bytes += bigEndian(Int32(element.count))
            bytes += element
        }
        return bytes
    }
}
