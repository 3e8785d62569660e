/// Finds one path in document after document, in place and without allocating: for scans.
///
/// Documents of a collection mostly have the same keys, so a key is first looked up at its place in the last
/// document. The cursor answers only for the commonest field, one REGISTER below MAPs. For everything else,
/// damaged bytes included, it returns `other`; then `MapReader.field` has the value or the error.
///
/// Belongs to one thread. A result is valid as long as the document's bytes are.
public final class FieldCursor {
    /// The content of a document at the path.
    public enum Found {
        /// No field.
        case missing
        /// A REGISTER with one value.
        case value(EncodedValue)
        /// Anything else; read it with `MapReader.field`.
        case other
    }

    private struct Step {
        let key: UnsafeRawBufferPointer
        /// The key as documents encode it, after its length; nil for a key that is unusually long.
        let encoded: BytePattern?
        /// The key's place in the last document.
        var place = 0
    }

    private let steps: UnsafeMutableBufferPointer<Step>

    /// A cursor for a path of at least one key (a precondition).
    public init(path: [String]) {
        precondition(!path.isEmpty, "a path has a key")
        steps = .allocate(capacity: path.count)
        for (index, name) in path.enumerated() {
            let key = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, name.utf8.count), alignment: 1)
            key.copyBytes(from: name.utf8)
            let used = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(key)[0..<name.utf8.count])
            let encoded = used.count < 0x80 ? BytePattern([UInt8(used.count)] + name.utf8) : nil
            steps.initializeElement(at: index, to: Step(key: used, encoded: encoded))
        }
    }

    deinit {
        for step in steps {
            UnsafeMutableRawPointer(mutating: step.key.baseAddress)?.deallocate()
            step.encoded?.deallocate()
        }
        steps.deallocate()
    }

    /// Returns whether a document has this text at the path; nil when the cursor cannot tell (`other`).
    public func holds(_ text: EncodedText, in document: DocumentReader) -> Bool? {
        switch place(in: document) {
        case .missing: return false
        case .other: return nil
        case .value(let reader):
            guard reader.remaining >= text.pattern.count else {
                return EncodedValue(reader) == nil ? nil : false
            }
            return text.pattern.matches(reader.bytes, at: reader.place)
        }
    }

    /// Finds the field at the path, read as an undeclared field.
    public func find(in document: DocumentReader) -> Found {
        switch place(in: document) {
        case .missing: .missing
        case .other: .other
        case .value(let reader): EncodedValue(reader).map { .value($0) } ?? .other
        }
    }

    private enum Place {
        case missing
        case value(ByteReader)
        case other
    }

    /// The place of the value at the path.
    @inline(__always)
    private func place(in document: DocumentReader) -> Place {
        var map = document.root
        for index in 0..<steps.count {
            var slot = MapReader.noSlot
            if let encoded = steps[index].encoded { slot = map.slot(encoded, at: steps[index].place) }
            if slot < 0 { slot = map.slot(steps[index].key, &steps[index].place) }
            guard slot != MapReader.noSlot else { return .missing }
            var reader = ByteReader(map.bytes, at: slot)
            guard slot > 0, let head = try? reader.byte() else { return .other }
            let isLast = index == steps.count - 1
            switch head & SlotBits.kinds {
            case SlotBits.register where isLast && head & SlotBits.severalValues == 0:
                if head & SlotBits.inheritsStamp == 0, (try? reader.varint()) == nil { return .other }
                return .value(reader)
            case SlotBits.map where !isLast:
                guard (try? reader.count()) != nil, let below = try? MapReader(reader) else { return .other }
                guard below.isVisible else { return .missing }
                map = below
            default: return .other
            }
        }
        return .other
    }
}

extension MapReader {
    static let noSlot = -1
    private static let damaged = -2

    /// The slot of `key` if the key is at `place`; `noSlot` when it is not, or when this cannot be told.
    @inline(__always)
    fileprivate func slot(_ key: BytePattern, at place: Int) -> Int {
        guard place < slots else { return Self.noSlot }
        let at = table + place * width
        let offset =
            width == 2
            ? UInt32(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: at, as: UInt16.self)))
            : UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: at, as: UInt32.self))
        guard let start = self.place(at: offset), key.matches(bytes, at: start) else { return Self.noSlot }
        return start + key.count
    }

    /// The slot of a key, `noSlot`, or `damaged`. Tries `place` first, and sets it to the place where the
    /// key is.
    @inline(__always)
    fileprivate func slot(_ key: UnsafeRawBufferPointer, _ place: inout Int) -> Int {
        if place < slots {
            let (order, slot) = compare(key, at: place)
            if order == 0 { return slot }
        }
        var low = 0
        var high = slots
        while low < high {
            let middle = (low + high) / 2
            let (order, slot) = compare(key, at: middle)
            if order == 0 {
                place = middle
                return slot
            }
            guard slot >= 0 else { return Self.damaged }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return Self.noSlot
    }

    /// Compares the key of a field with `key`; also returns the place of its slot, or `damaged`.
    @inline(__always)
    private func compare(_ key: UnsafeRawBufferPointer, at index: Int) -> (order: Int, slot: Int) {
        var offsets = ByteReader(bytes, at: table + index * width)
        guard let offset = try? offsets.fixed(width: width), let field = place(at: offset) else {
            return (1, Self.damaged)
        }
        var reader = ByteReader(bytes, at: field)
        guard let length = try? reader.count(), let found = try? reader.run(length) else {
            return (1, Self.damaged)
        }
        return (compareBytes(found, key), reader.place)
    }
}

/// A value in its encoding.
public struct EncodedValue {
    /// The encoding: equal bytes are equal values of one type.
    public let bytes: UnsafeRawBufferPointer

    /// The value at a reader's place; nil when there is none.
    @inline(__always)
    init?(_ start: ByteReader) {
        var reader = start
        let place = reader.place
        guard (try? reader.skipValue()) != nil else { return nil }
        bytes = UnsafeRawBufferPointer(rebasing: start.bytes[place..<reader.place])
    }

    /// A value as far as it can be read in place.
    public enum Content {
        /// null.
        case null
        /// true or false.
        case bool(Bool)
        /// A whole number.
        case int(Int64)
        /// A float.
        case double(Double)
        /// The UTF-8 bytes of a text.
        case text(UnsafeRawBufferPointer)
        /// A collection or binary.
        case other
    }

    /// The value's type and, for simple types, its content.
    @inline(__always)
    public var content: Content {
        let tag = bytes[0]
        switch tag {
        case 0x80...0xFF: return .int(Int64(tag - 0x80))
        case 0x40...0x7F: return .text(UnsafeRawBufferPointer(rebasing: bytes[1...]))
        case 0x00: return .null
        case 0x01, 0x02: return .bool(tag == 0x02)
        case 0x04:
            return .double(
                Double(bitPattern: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 1, as: UInt64.self)))
            )
        case 0x03:
            var reader = ByteReader(bytes, at: 1)
            guard let zigzag = try? reader.varint() else { return .other }
            return .int(Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1))
        case 0x05:
            var reader = ByteReader(bytes, at: 1)
            guard let length = try? reader.count(), let text = try? reader.run(length) else { return .other }
            return .text(text)
        default: return .other
        }
    }

    /// Decodes the value. Throws for damaged bytes.
    public func value() throws(CRDTError) -> Value {
        var reader = ByteReader(bytes)
        return try reader.value(depth: 0)
    }
}
