/// Reads the primitives of our encodings out of bytes it does not own. Never reads past the end: it throws.
///
/// The buffer must outlive the reader; readers are handed out for the length of one call.
struct ByteReader {
    let bytes: UnsafeRawBufferPointer
    private(set) var place: Int

    init(_ bytes: UnsafeRawBufferPointer, at place: Int = 0) {
        self.bytes = bytes
        self.place = place
    }

    var isAtEnd: Bool { place >= bytes.count }
    var remaining: Int { bytes.count - place }

    mutating func byte() throws(CRDTError) -> UInt8 {
        guard place < bytes.count else { throw .truncated(at: place) }
        defer { place += 1 }
        return bytes[place]
    }

    mutating func varint() throws(CRDTError) -> UInt64 {
        // Nearly all of them are one byte.
        if place < bytes.count, bytes[place] < 0x80 {
            defer { place += 1 }
            return UInt64(bytes[place])
        }
        return try longVarint()
    }

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

    /// A count of things that take at least `unit` bytes each, so that no announced number outgrows the
    /// bytes at hand.
    mutating func count(unit: Int = 1) throws(CRDTError) -> Int {
        let value = try varint()
        guard value <= UInt64(remaining / unit) else { throw .truncated(at: place) }
        return Int(value)
    }

    /// A number that must fit below `bound`.
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

    mutating func fixed(width: Int) throws(CRDTError) -> Int {
        guard remaining >= width else { throw .truncated(at: place) }
        var value = 0
        for _ in 0..<width {
            value = value << 8 | Int(bytes[place])
            place += 1
        }
        return value
    }

    mutating func run(_ length: Int) throws(CRDTError) -> UnsafeRawBufferPointer {
        guard length >= 0, remaining >= length else { throw .truncated(at: place) }
        defer { place += length }
        return UnsafeRawBufferPointer(rebasing: bytes[place..<place + length])
    }

    mutating func text() throws(CRDTError) -> String { try text(length: try count()) }

    mutating func text(length: Int) throws(CRDTError) -> String {
        let start = place
        let raw = try run(length)
        guard let text = String(validating: raw, as: UTF8.self) else {
            throw CRDTError(.invalidUTF8, "a text at byte \(start) is not valid UTF-8")
        }
        return text
    }

    func requireEnd() throws(CRDTError) {
        guard isAtEnd else { throw .malformed("\(remaining) bytes follow the end", at: place) }
    }
}

extension CRDTError {
    static func truncated(at place: Int) -> CRDTError {
        CRDTError(.truncated, "the bytes end too early, at byte \(place)")
    }
    static func malformed(_ what: String, at place: Int) -> CRDTError {
        CRDTError(.malformed, "\(what), at byte \(place)")
    }
}
