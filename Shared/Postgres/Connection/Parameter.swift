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

    /// Bytes of the binary form.
    var size: Int {
        switch self {
        case .int8: 8
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .int8Array(let numbers): 20 + 12 * numbers.count
        case .textArray(let texts): texts.reduce(20) { $0 + 4 + $1.utf8.count }
        case .bytesArray(let elements), .utf8Array(let elements):
            elements.reduce(20) { $0 + 4 + $1.count }
        }
    }

    /// Appends the binary form.
    func encode(into bytes: inout [UInt8]) {
        switch self {
        case .int8(let number): Self.put(number, into: &bytes)
        case .text(let text): bytes += text.utf8
        case .bytes(let value): bytes += value
        case .int8Array(let numbers):
            Self.array(TypeID.int8, numbers, into: &bytes) { number, bytes in
                Self.put(Int32(8), into: &bytes)
                Self.put(number, into: &bytes)
            }
        case .textArray(let texts):
            Self.array(TypeID.text, texts, into: &bytes) { text, bytes in
                Self.put(Int32(text.utf8.count), into: &bytes)
                bytes += text.utf8
            }
        case .bytesArray(let blobs): Self.array(TypeID.bytea, blobs, into: &bytes, Self.element)
        case .utf8Array(let texts): Self.array(TypeID.text, texts, into: &bytes, Self.element)
        }
    }

    private static func put(_ number: some FixedWidthInteger, into bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }

    private static func element(_ value: [UInt8], into bytes: inout [UInt8]) {
        put(Int32(value.count), into: &bytes)
        bytes += value
    }

    /// One dimension, no nulls: dimensions, null flag, element type, length, lower bound, then the elements.
    private static func array<Element>(
        _ elementType: UInt32, _ elements: [Element], into bytes: inout [UInt8],
        _ encode: (Element, inout [UInt8]) -> Void
    ) {
        put(Int32(elements.isEmpty ? 0 : 1), into: &bytes)
        put(Int32(0), into: &bytes)
        put(elementType, into: &bytes)
        guard !elements.isEmpty else { return }
        put(Int32(elements.count), into: &bytes)
        put(Int32(1), into: &bytes)
        for element in elements { encode(element, &bytes) }
    }
}
