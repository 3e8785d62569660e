/// Appends the primitives of our encodings to a byte array. Numbers are big-endian; varints are LEB128,
/// shortest form.
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func reserve(_ count: Int) { bytes.reserveCapacity(count) }

    /// The number of bytes written.
    var count: Int { bytes.count }

    @inline(__always)
    mutating func byte(_ value: UInt8) { bytes.append(value) }

    mutating func raw(_ run: some Sequence<UInt8>) { bytes.append(contentsOf: run) }

    mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func count(_ value: Int) { varint(UInt64(value)) }

    mutating func fixed64(_ value: UInt64) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func fixed(_ value: Int, width: Int) {
        for index in stride(from: width - 1, through: 0, by: -1) {
            bytes.append(UInt8(truncatingIfNeeded: value >> (8 * index)))
        }
    }

    mutating func zeros(_ count: Int) { bytes.append(contentsOf: repeatElement(0, count: count)) }

    mutating func put(_ value: UInt16, at place: Int) {
        bytes[place] = UInt8(truncatingIfNeeded: value >> 8)
        bytes[place + 1] = UInt8(truncatingIfNeeded: value)
    }

    mutating func replace(_ range: Range<Int>, with run: [UInt8]) {
        bytes.replaceSubrange(range, with: run)
    }

    mutating func text(_ value: String) {
        count(value.utf8.count)
        utf8(value)
    }

    /// A text without its length.
    @inline(__always)
    mutating func utf8(_ value: String) {
        let inPlace: Void? = value.utf8.withContiguousStorageIfAvailable {
            bytes.append(contentsOf: UnsafeRawBufferPointer($0))
        }
        if inPlace == nil { bytes.append(contentsOf: value.utf8) }
    }

    /// Writes the length of `body`'s bytes, then the bytes.
    mutating func sized(_ body: (inout ByteWriter) -> Void) {
        let start = beginSized()
        body(&self)
        endSized(start)
    }

    /// Leaves room for the length of the bytes that are written until `endSized`; returns their first place.
    mutating func beginSized() -> Int {
        // One byte is nearly always enough.
        bytes.append(0)
        return bytes.count
    }

    /// Writes the length of the bytes written since `beginSized` before them.
    mutating func endSized(_ start: Int) {
        let length = bytes.count - start
        guard length >= 0x80 else {
            bytes[start - 1] = UInt8(length)
            return
        }
        var head = ByteWriter()
        head.count(length)
        replace(start - 1..<start, with: head.bytes)
    }

    /// The length of a varint in bytes.
    static func varintLength(_ value: UInt64) -> Int { max(1, (64 - value.leadingZeroBitCount + 6) / 7) }
}
