/// Reads a document's encoding in place: a path touches the maps on its way, not the document.
///
/// The bytes are not owned; the reader and everything it hands out are valid only while the caller keeps
/// them in place (the length of a visit). The bytes are expected to have been decoded once on arrival;
/// damaged ones throw, they never read out of bounds.
public struct DocumentReader {
    /// The document itself as a map.
    public let root: MapReader
    private let bytes: UnsafeRawBufferPointer

    /// A reader on one encoded document. Throws `truncated`, `malformed` or `unsupportedVersion`.
    public init(_ bytes: UnsafeRawBufferPointer) throws(CRDTError) {
        var reader = ByteReader(bytes)
        try reader.documentVersion()
        _ = try reader.run(16 * (try reader.count(unit: 16)))
        _ = try reader.run(try reader.count())
        self.bytes = bytes
        root = try MapReader(reader)
    }

    /// Whether the document is there for readers (see `Document.isLive`).
    public var isLive: Bool { root.isVisible }

    /// The document's version vector.
    public func vector() throws(CRDTError) -> VersionVector {
        var reader = ByteReader(bytes, at: 2)
        return try reader.vector()
    }
}

/// A MAP read in place.
public struct MapReader {
    /// How many fields there are.
    public let count: Int
    /// Whether the map is there: created, or holding fields.
    public let isVisible: Bool
    /// The greatest stamp beneath, as its index in the stamp table (indexes compare like stamps), plus one.
    let greatest: Int
    private let bytes: UnsafeRawBufferPointer
    private let width: Int
    private let table: Int
    private let fields: Int

    init(_ start: ByteReader) throws(CRDTError) {
        var reader = start
        let presence = try reader.count()
        for _ in 0..<presence { _ = try reader.varint() }
        greatest = try reader.stampIndex()
        count = try reader.count(unit: 3)
        isVisible = presence > 0 || count > 0
        bytes = reader.bytes
        width = count > 0 ? Int(try reader.byte()) : 2
        guard width == 2 || width == 4 else {
            throw .malformed("an offset width is neither 2 nor 4", at: reader.place)
        }
        table = reader.place
        _ = try reader.run(count * width)
        fields = reader.place
    }

    /// The field under a key, nil when there is none. Binary search over the offsets; allocates nothing.
    public func field(_ key: String) throws(CRDTError) -> FieldReader? {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            var reader = try reader(at: middle)
            let candidate = try reader.run(try reader.count())
            let order = compareKey(candidate, key)
            if order == 0 { return try FieldReader(reader, inherited: greatest) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return nil
    }

    /// Visits the fields in the order of their keys' bytes.
    public func forEach<Failure: Error>(
        _ body: (_ key: String, _ field: FieldReader) throws(Failure) -> Void
    ) throws {
        for index in 0..<count {
            var reader = try reader(at: index)
            let key = String(decoding: try reader.run(try reader.count()), as: UTF8.self)
            try body(key, FieldReader(reader, inherited: greatest))
        }
    }

    /// The map as an undeclared reader sees it: of each key the newest variant.
    public func value() throws -> ObjectValue { try value(depth: 0) }

    /// Bounded like the decoder: damaged offsets could nest, or share a child, without end.
    func value(depth: Int) throws -> ObjectValue {
        guard depth <= Limits.nestingDepth else { throw CRDTError.tooDeep }
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(count)
        try forEach { (key, field) throws in
            if let value = try field.value(nil, depth: depth) { entries.append((key: key, value: value)) }
        }
        return ObjectValue(unique: entries)
    }

    private func reader(at index: Int) throws(CRDTError) -> ByteReader {
        var offsets = ByteReader(bytes, at: table + index * width)
        let offset = try offsets.fixed(width: width)
        guard fields + offset <= bytes.count else { throw .truncated(at: bytes.count) }
        return ByteReader(bytes, at: fields + offset)
    }

    private func compareKey(_ candidate: UnsafeRawBufferPointer, _ key: String) -> Int {
        if let order = key.utf8.withContiguousStorageIfAvailable({
            compareBytes(candidate, UnsafeRawBufferPointer($0))
        }) {
            return order
        }
        return compareUTF8(String(decoding: candidate, as: UTF8.self), key)
    }
}

/// Everything under one key, read in place.
public struct FieldReader {
    /// The kind written most recently; nil only in bytes of a later version.
    public let newestKind: FieldKind?
    private let registerReader: ByteReader?
    private let mapReader: ByteReader?

    init(_ start: ByteReader, inherited: Int) throws(CRDTError) {
        var reader = start
        let head = try reader.byte()
        var leafStamp: Int?
        var newestValue: ByteReader?
        if head & SlotBits.register != 0 {
            let number = head & SlotBits.severalValues != 0 ? try reader.count(unit: 2) : 1
            for _ in 0..<number {
                leafStamp =
                    head & SlotBits.inheritsStamp != 0
                    ? inherited - 1 : try reader.stampIndex()
                newestValue = reader
                if number > 1 || head & SlotBits.map != 0 { try reader.skipValue() }
            }
        }
        registerReader = newestValue
        guard head & SlotBits.map != 0 else {
            mapReader = nil
            newestKind = newestValue == nil ? nil : .register
            return
        }
        _ = try reader.count()
        mapReader = reader
        let below = try MapReader(reader)
        newestKind = leafStamp.map { $0 > below.greatest - 1 ? .register : .map } ?? .map
    }

    /// The MAP variant, nil when there is none.
    public func map() throws(CRDTError) -> MapReader? {
        guard let mapReader else { return nil }
        return try MapReader(mapReader)
    }

    /// The REGISTER variant's value with the greatest stamp, nil when there is none.
    public func register() throws(CRDTError) -> Value? {
        guard var reader = registerReader else { return nil }
        return try reader.value(depth: 0)
    }

    /// The value of one kind, or of the newest kind when nil; nil when that variant does not exist.
    public func value(_ kind: FieldKind? = nil) throws -> Value? { try value(kind, depth: 0) }

    func value(_ kind: FieldKind?, depth: Int) throws -> Value? {
        switch kind ?? newestKind {
        case .register?: try register()
        case .map?: try map().map { .object(try $0.value(depth: depth + 1)) }
        default: nil
        }
    }
}

extension ByteReader {
    /// An index into a stamp table that is not at hand: any number, as long as it can be compared and
    /// lowered by one.
    fileprivate mutating func stampIndex() throws(CRDTError) -> Int {
        guard let index = Int(exactly: try varint()) else {
            throw .malformed("an index is out of range", at: place)
        }
        return index
    }
}
