/// Reads a document's encoding in place: a path touches only the maps on its way.
///
/// The reader does not own the bytes. It and everything it returns are valid only while the caller keeps the
/// bytes in place (the length of a visit). The bytes must have been decoded once on arrival. Damaged bytes
/// throw; they are never read out of bounds.
public struct DocumentReader {
    /// The document itself as a map.
    public let root: MapReader
    /// The encoding.
    public var bytes: UnsafeRawBufferPointer { root.bytes }

    /// A reader on one encoded document. Throws `truncated`, `malformed` or `unsupportedVersion`.
    public init(_ bytes: UnsafeRawBufferPointer) throws(CRDTError) {
        if let root = MapReader(rootOf: bytes) {
            self.root = root
            return
        }
        var reader = ByteReader(bytes)
        try reader.documentVersion()
        _ = try reader.run(16 * (try reader.count(unit: 16)))
        _ = try reader.run(try reader.count())
        root = try MapReader(reader)
    }

    /// True if readers see the document (see `Document.isLive`).
    public var isLive: Bool { root.isVisible }

    /// The document's version vector.
    public func vector() throws(CRDTError) -> VersionVector {
        var reader = ByteReader(bytes, at: 2)
        return try reader.vector()
    }
}

/// A MAP read in place. Small, because a scan passes one on for every document.
public struct MapReader {
    /// The whole document.
    let bytes: UnsafeRawBufferPointer
    private let storedSlots: UInt32
    private let storedGreatest: UInt32
    private let storedTable: UInt32
    private let storedFields: UInt32

    /// The number of encoded fields, invisible ones included.
    var slots: Int { Int(storedSlots) }
    /// The greatest stamp beneath, as its index in the stamp table plus one; indexes compare like stamps.
    var greatest: Int { Int(storedGreatest) }
    /// The place of the offsets.
    var table: Int { Int(storedTable) }
    /// The place of the fields, after the offsets.
    var fields: Int { Int(storedFields) }
    /// The bytes per offset.
    var width: Int { bytes[table - 1] == 4 ? 4 : 2 }

    init(_ start: ByteReader) throws(CRDTError) {
        var reader = start
        guard reader.bytes.count <= UInt32.max else { throw .malformed("a document is too long", at: 0) }
        let greatest = try reader.greatestOfMap()
        let slots = try reader.count(unit: 3)
        bytes = reader.bytes
        let width = slots > 0 ? Int(try reader.byte()) : 2
        guard width == 2 || width == 4 else {
            throw .malformed("an offset width is neither 2 nor 4", at: reader.place)
        }
        storedGreatest = UInt32(clamping: greatest)
        storedSlots = UInt32(slots)
        storedTable = UInt32(reader.place)
        _ = try reader.run(slots * width)
        storedFields = UInt32(reader.place)
    }

    /// The root of nearly every document: a short header whose numbers take one byte each. Nil for any other
    /// header, and for a damaged one.
    @inline(__always)
    fileprivate init?(rootOf bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 3, bytes[0] == Document.encodingVersion, bytes[1] == 0, bytes[2] < 0x80 else {
            return nil
        }
        let stamps = 3 + 16 * Int(bytes[2])
        guard stamps < bytes.count, bytes[stamps] < 0x80 else { return nil }
        let place = stamps + 1 + Int(bytes[stamps])
        guard place + 5 <= bytes.count, bytes[place] == 1,
            (bytes[place + 1] | bytes[place + 2] | bytes[place + 3]) < 0x80
        else { return nil }
        let slots = Int(bytes[place + 3])
        let width = Int(bytes[place + 4])
        guard slots > 0, width == 2 || width == 4, 3 * slots <= bytes.count - place - 4 else { return nil }
        let fields = place + 5 + slots * width
        guard fields <= bytes.count, bytes.count <= UInt32.max else { return nil }
        storedSlots = UInt32(truncatingIfNeeded: slots)
        storedTable = UInt32(truncatingIfNeeded: place + 5)
        storedFields = UInt32(truncatingIfNeeded: fields)
        storedGreatest = UInt32(bytes[place + 2])
        self.bytes = bytes
    }

    /// True if readers see the map: it was created, or holds a visible field.
    public var isVisible: Bool { greatest > 0 }

    /// The number of visible fields. Looks at every field.
    public func count() throws(CRDTError) -> Int {
        var seen = 0
        try forEach { _, _ in seen += 1 }
        return seen
    }

    /// The visible field under a key; nil when there is none. Binary search over the offsets; allocates
    /// nothing.
    public func field(_ key: String) throws(CRDTError) -> FieldReader? {
        let inPlace = key.utf8.withContiguousStorageIfAvailable { search(UnsafeRawBufferPointer($0)) }
        let found = inPlace ?? Array(key.utf8).withUnsafeBytes { search($0) }
        guard let slot = try found.get() else { return nil }
        let field = try FieldReader(slot, inherited: greatest)
        return field.newestKind == nil ? nil : field
    }

    /// A reader at the slot under a key; nil when there is none.
    private func search(_ key: UnsafeRawBufferPointer) -> Result<ByteReader?, CRDTError> {
        Result { () throws(CRDTError) -> ByteReader? in
            var low = 0
            var high = slots
            while low < high {
                let middle = (low + high) / 2
                var reader = try reader(at: middle)
                let order = compareBytes(try reader.run(try reader.count()), key)
                if order == 0 { return reader }
                if order < 0 { low = middle + 1 } else { high = middle }
            }
            return nil
        }
    }

    /// Visits the visible fields, in the order of their keys' bytes.
    public func forEach(
        _ body: (_ key: String, _ field: FieldReader) throws(CRDTError) -> Void
    ) throws(CRDTError) {
        for index in 0..<slots {
            var reader = try reader(at: index)
            let key = try reader.run(try reader.count())
            let field = try FieldReader(reader, inherited: greatest)
            if field.newestKind != nil { try body(String(decoding: key, as: UTF8.self), field) }
        }
    }

    /// The map as a reader without declared types sees it: the newest variant of each key.
    /// - Parameter first: a pair from elsewhere that stands first, in place of any field with its key.
    public func value(after first: ObjectValue.Entry? = nil) throws(CRDTError) -> ObjectValue {
        try value(after: first, depth: 0)
    }

    /// The depth is bounded as in the decoder: damaged offsets could nest, or share a child, without end.
    func value(after first: ObjectValue.Entry? = nil, depth: Int) throws(CRDTError) -> ObjectValue {
        guard depth <= Limits.nestingDepth else { throw CRDTError.tooDeep }
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(slots + 1)
        if let first { entries.append(first) }
        try forEach { (key, field) throws(CRDTError) in
            if let first, utf8Equal(key, first.key) { return }
            if let value = try field.value(nil, depth: depth) { entries.append((key: key, value: value)) }
        }
        return ObjectValue(unique: entries)
    }

    /// A reader at the key of a field.
    @inline(__always)
    private func reader(at index: Int) throws(CRDTError) -> ByteReader {
        var offsets = ByteReader(bytes, at: table + index * width)
        guard let place = place(at: try offsets.fixed(width: width)) else {
            throw .truncated(at: bytes.count)
        }
        return ByteReader(bytes, at: place)
    }

    /// The place of the field at an offset; nil when that is beyond the document.
    @inline(__always)
    func place(at offset: UInt32) -> Int? {
        offset <= bytes.count - fields ? fields + Int(offset) : nil
    }
}

extension ByteReader {
    /// The greatest stamp of the MAP that begins here, as its index plus one; 0 when it is not visible.
    mutating func greatestOfMap() throws(CRDTError) -> Int {
        let presence = try count()
        for _ in 0..<presence { _ = try varint() }
        return try stampIndex()
    }
}
