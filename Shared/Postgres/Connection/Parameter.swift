/// A statement's parameter, sent in PostgreSQL's binary format.
enum Parameter: Sendable {
    case int8(Int64)
    case text(String)
    case bytes([UInt8])
    case int8Array([Int64])
    case textArray([String])
    case bytesArray([[UInt8]])
    /// Texts that are already encoded as UTF-8.
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

    /// The exact size of the binary form in bytes.
    var size: Int {
        switch self {
        case .int8: 8
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .int8Array(let numbers): Self.headSize(numbers.count) + 12 * numbers.count
        case .textArray(let texts): texts.reduce(Self.headSize(texts.count)) { $0 + 4 + $1.utf8.count }
        case .bytesArray(let elements), .utf8Array(let elements):
            elements.reduce(Self.headSize(elements.count)) { $0 + 4 + $1.count }
        }
    }

    /// Bytes of an array before its elements.
    private static func headSize(_ count: Int) -> Int { count == 0 ? 12 : 20 }

    /// Writes the binary form, `size` bytes.
    func encode(into cursor: inout Cursor) {
        switch self {
        case .int8(let number): cursor.put(number)
        case .text(let text): cursor.put(text)
        case .bytes(let value): cursor.put(value)
        case .int8Array(let numbers):
            cursor.begin(TypeID.int8, count: numbers.count)
            for number in numbers {
                cursor.put(Int32(8))
                cursor.put(number)
            }
        case .textArray(let texts):
            cursor.begin(TypeID.text, count: texts.count)
            for text in texts {
                cursor.put(Int32(text.utf8.count))
                cursor.put(text)
            }
        case .bytesArray(let elements): cursor.put(elements, of: TypeID.bytea)
        case .utf8Array(let elements): cursor.put(elements, of: TypeID.text)
        }
    }

    /// A position in memory with room for the values written there.
    struct Cursor {
        private(set) var place: UnsafeMutableRawPointer

        init(_ place: UnsafeMutableRawPointer) { self.place = place }

        mutating func put(_ number: some FixedWidthInteger) {
            place.storeBytes(of: number.bigEndian, as: type(of: number))
            place += MemoryLayout.size(ofValue: number)
        }

        mutating func put(_ bytes: [UInt8]) {
            bytes.withUnsafeBytes { raw in
                if let base = raw.baseAddress { place.copyMemory(from: base, byteCount: raw.count) }
            }
            place += bytes.count
        }

        mutating func put(_ text: String) {
            var text = text
            text.withUTF8 { utf8 in
                if let base = utf8.baseAddress { place.copyMemory(from: base, byteCount: utf8.count) }
                place += utf8.count
            }
        }

        /// The head of a one-dimensional array without nulls: dimensions, null flag, element type, and
        /// unless it is empty, length and lower bound.
        mutating func begin(_ elementType: UInt32, count: Int) {
            put(Int32(count == 0 ? 0 : 1))
            put(Int32(0))
            put(elementType)
            guard count > 0 else { return }
            put(Int32(count))
            put(Int32(1))
        }

        mutating func put(_ elements: [[UInt8]], of elementType: UInt32) {
            begin(elementType, count: elements.count)
            for element in elements {
                put(Int32(element.count))
                put(element)
            }
        }
    }
}
