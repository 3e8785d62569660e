/// Reads the primitives of our encodings from bytes that it does not own. It throws at the end and never
/// reads past it.
///
/// The buffer must outlive the reader; a reader is used within one call.
struct ByteReader {
    let bytes: UnsafeRawBufferPointer
    private(set) var place: Int

    init(_ bytes: UnsafeRawBufferPointer, at place: Int = 0) {
        self.bytes = bytes
        self.place = place
    }

    var isAtEnd: Bool { place >= bytes.count }
    var remaining: Int { bytes.count - place }

    @inline(__always)
    mutating func byte() throws(CRDTError) -> UInt8 {
        guard place < bytes.count else { throw .truncated(at: place) }
        defer { place += 1 }
        return bytes[place]
    }

    /// Nearly every number takes one byte, so that case is inlined.
    @inline(__always)
    mutating func varint() throws(CRDTError) -> UInt64 {
        if place < bytes.count, bytes[place] < 0x80 {
            defer { place += 1 }
            return UInt64(bytes[place])
        }
        return try longVarint()
    }

    @inline(never)
    private mutating func longVarint() throws(CRDTError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let next = try byte()
            let part = UInt64(next & 0x7F)
            guard shift < 63 || (shift == 63 && part <= 1) else {
                throw .malformed("a varint exceeds 64 bits", at: place)
            }
            value |= part << shift
            if next & 0x80 == 0 {
                guard next != 0 || shift == 0 else {
                    throw .malformed("a varint is not in its shortest form", at: place)
                }
                return value
            }
            shift += 7
        }
    }

    /// A count of elements that take at least `unit` bytes each. Refuses a count that the remaining bytes
    /// cannot hold.
    @inline(__always)
    mutating func count(unit: Int = 1) throws(CRDTError) -> Int {
        let value = try varint()
        guard value <= UInt64(unit == 1 ? remaining : remaining / unit) else { throw .truncated(at: place) }
        return Int(value)
    }

    /// A number that must be less than `bound`.
    @inline(__always)
    mutating func index(below bound: Int) throws(CRDTError) -> Int {
        let value = try varint()
        guard value < UInt64(bound) else { throw .malformed("an index is out of range", at: place) }
        return Int(value)
    }

    mutating func fixed64() throws(CRDTError) -> UInt64 {
        guard remaining >= 8 else { throw .truncated(at: place) }
        defer { place += 8 }
        return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
    }

    /// A number of one, two or four bytes. Where `Int` has 32 bits, not every such number is an `Int`.
    @inline(__always)
    mutating func fixed(width: Int) throws(CRDTError) -> UInt32 {
        guard remaining >= width else { throw .truncated(at: place) }
        defer { place += width }
        switch width {
        case 1: return UInt32(bytes[place])
        case 2: return UInt32(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt16.self)))
        case 4: return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self))
        default: preconditionFailure("a number of \(width) bytes")
        }
    }

    @inline(__always)
    mutating func run(_ length: Int) throws(CRDTError) -> UnsafeRawBufferPointer {
        guard length >= 0, remaining >= length else { throw .truncated(at: place) }
        defer { place += length }
        return UnsafeRawBufferPointer(rebasing: bytes[place..<place + length])
    }

    @inline(__always)
    mutating func text() throws(CRDTError) -> String { try text(length: try count()) }

    mutating func text(length: Int) throws(CRDTError) -> String {
        let start = place
        let raw = try run(length)
        // ASCII is always valid; the standard library's validation costs several times as much.
        if isASCII(raw) { return String(decoding: raw, as: UTF8.self) }
        guard let text = String(validating: raw, as: UTF8.self) else {
            throw CRDTError(.invalidUTF8, "a text at byte \(start) is not valid UTF-8")
        }
        return text
    }

    /// A key that must sort after `last`, the key before it; `last` becomes this key.
    @inline(__always)
    mutating func key(after last: inout UnsafeRawBufferPointer?) throws(CRDTError) -> String {
        let length = try count()
        var ahead = self
        let raw = try ahead.run(length)
        if let last, compareBytes(last, raw) >= 0 { throw .malformed("keys do not ascend", at: place) }
        last = raw
        return try text(length: length)
    }

    /// Steps over a text with the checks of `text(length:)`.
    @inline(__always)
    mutating func checkText(length: Int) throws(CRDTError) {
        let raw = try run(length)
        if isASCII(raw) { return }
        guard String(validating: raw, as: UTF8.self) != nil else {
            throw CRDTError(.invalidUTF8, "a text before byte \(place) is not valid UTF-8")
        }
    }

    /// Steps over a key with the checks of `key(after:)`.
    @inline(__always)
    mutating func checkKey(after last: inout UnsafeRawBufferPointer?) throws(CRDTError) {
        let length = try count()
        var ahead = self
        let raw = try ahead.run(length)
        if let last, compareBytes(last, raw) >= 0 { throw .malformed("keys do not ascend", at: place) }
        last = raw
        try checkText(length: length)
    }

    func requireEnd() throws(CRDTError) {
        guard isAtEnd else { throw .malformed("\(remaining) bytes follow the end", at: place) }
    }
}

/// Returns whether every byte is below 0x80.
func isASCII(_ raw: UnsafeRawBufferPointer) -> Bool {
    var place = 0
    while place + 8 <= raw.count {
        guard raw.loadUnaligned(fromByteOffset: place, as: UInt64.self) & 0x8080_8080_8080_8080 == 0 else {
            return false
        }
        place += 8
    }
    while place < raw.count {
        if raw[place] >= 0x80 { return false }
        place += 1
    }
    return true
}

extension CRDTError {
    static func truncated(at place: Int) -> CRDTError {
        CRDTError(.truncated, "the bytes end too early, at byte \(place)")
    }
    static func malformed(_ what: String, at place: Int) -> CRDTError {
        CRDTError(.malformed, "\(what), at byte \(place)")
    }
}
