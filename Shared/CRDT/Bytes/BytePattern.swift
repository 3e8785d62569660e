/// Bytes to look for in one document after the other. The first eight are compared in one step.
struct BytePattern {
    private let bytes: UnsafeRawBufferPointer
    private let first: UInt64
    private let mask: UInt64

    /// Copies the bytes. The copy lives until `deallocate`.
    init(_ bytes: [UInt8]) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(8, bytes.count), alignment: 8)
        copy.initializeMemory(as: UInt8.self, repeating: 0)
        copy.copyBytes(from: bytes)
        first = copy.load(as: UInt64.self)
        for place in 0..<8 { copy[place] = place < bytes.count ? 0xFF : 0 }
        mask = copy.load(as: UInt64.self)
        copy.copyBytes(from: bytes)
        self.bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(copy)[0..<bytes.count])
    }

    func deallocate() { UnsafeMutableRawPointer(mutating: bytes.baseAddress)?.deallocate() }

    var count: Int { bytes.count }

    /// Returns whether the bytes are at a place.
    @inline(__always)
    func matches(_ all: UnsafeRawBufferPointer, at place: Int) -> Bool {
        let left = all.count - place
        guard left >= 8 else { return matchesEnd(all, at: place) }
        guard all.loadUnaligned(fromByteOffset: place, as: UInt64.self) & mask == first else { return false }
        return bytes.count <= 8 || matchesRest(all, at: place)
    }

    private func matchesRest(_ all: UnsafeRawBufferPointer, at place: Int) -> Bool {
        guard all.count - place >= bytes.count else { return false }
        return compareBytes(
            UnsafeRawBufferPointer(rebasing: all[place + 8..<place + bytes.count]),
            UnsafeRawBufferPointer(rebasing: bytes[8...])) == 0
    }

    /// Compares near the end of a document, where eight bytes cannot be read.
    @inline(never)
    private func matchesEnd(_ all: UnsafeRawBufferPointer, at place: Int) -> Bool {
        guard place <= all.count, all.count - place >= bytes.count else { return false }
        return compareBytes(
            UnsafeRawBufferPointer(rebasing: all[place..<place + bytes.count]), bytes) == 0
    }
}

/// A text in its encoding, to compare with values of documents: texts are equal when their encodings are.
public final class EncodedText {
    let pattern: BytePattern

    /// The encoding of a text.
    public init(_ text: String) {
        var writer = ByteWriter()
        writer.value(.string(text))
        pattern = BytePattern(writer.bytes)
    }

    deinit { pattern.deallocate() }
}
