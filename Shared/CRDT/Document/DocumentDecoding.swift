extension Document {
    /// Decodes a whole state, checking everything: version, order, shortest forms, that every stamp is
    /// covered and used. Bytes that decode encode to themselves. Throws `truncated`, `malformed`,
    /// `unsupportedVersion`, `tooDeep`, `invalidUTF8`.
    public init(decoding bytes: [UInt8]) throws(CRDTError) {
        let result = bytes.withUnsafeBytes { raw -> Result<Document, CRDTError> in
            Result { () throws(CRDTError) -> Document in try Document(decoding: raw) }
        }
        self = try result.get()
    }

    /// As `init(decoding:)`, from bytes that the caller keeps alive during the call.
    public init(decoding bytes: UnsafeRawBufferPointer) throws(CRDTError) {
        var decoder = try DocumentDecoder(bytes)
        let root = try decoder.map(depth: 0)
        try decoder.reader.requireEnd()
        guard decoder.used.allSatisfy({ $0 }) else {
            throw .malformed("the stamp table holds an unused stamp", at: decoder.reader.place)
        }
        self.init(vector: decoder.vector, root: root)
    }
}

/// Decodes the tree behind a document's header, noting which stamps it meets.
struct DocumentDecoder {
    var reader: ByteReader
    let vector: VersionVector
    let stamps: [Stamp]
    var used: [Bool]

    init(_ bytes: UnsafeRawBufferPointer) throws(CRDTError) {
        var reader = ByteReader(bytes)
        try reader.documentVersion()
        let vector = try reader.vector()
        let length = try reader.count()
        let end = reader.place + length
        let number = try reader.count(unit: 2)
        var stamps: [Stamp] = []
        for _ in 0..<number {
            let entry = vector.entries[try reader.index(below: vector.entries.count)]
            let back = try reader.varint()
            guard back <= entry.time else {
                throw .malformed("a stamp is before time zero", at: reader.place)
            }
            let stamp = Stamp(time: entry.time - back, actor: entry.actor)
            if let last = stamps.last, last >= stamp {
                throw .malformed("stamps do not ascend", at: reader.place)
            }
            stamps.append(stamp)
        }
        guard reader.place == end else {
            throw .malformed("the stamp table's length is wrong", at: reader.place)
        }
        self.reader = reader
        self.vector = vector
        self.stamps = stamps
        used = Array(repeating: false, count: number)
    }

    mutating func map(depth: Int) throws(CRDTError) -> MapNode {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        var node = MapNode()
        let presence = try reader.count()
        for _ in 0..<presence {
            let stamp = try stamp()
            if let last = node.presence.last, last >= stamp {
                throw .malformed("presence does not ascend", at: reader.place)
            }
            node.presence.append(stamp)
        }
        let greatest = try reader.index(below: stamps.count + 1)
        // In use by whatever inherits it; that something beneath carries it is checked below.
        if greatest > 0 { used[greatest - 1] = true }
        let inherited = greatest == 0 ? nil : stamps[greatest - 1]
        try fields(into: &node, inherited, depth: depth)
        guard node.maxStamp == inherited else {
            throw .malformed("a map's greatest stamp is wrong", at: reader.place)
        }
        return node
    }

    private mutating func fields(into node: inout MapNode, _ inherited: Stamp?, depth: Int) throws(CRDTError)
    {
        let number = try reader.count(unit: 3)
        guard number > 0 else { return }
        let width = Int(try reader.byte())
        guard width == 2 || width == 4 else {
            throw .malformed("an offset width is neither 2 nor 4", at: reader.place)
        }
        let table = reader.place
        _ = try reader.run(number * width)
        let start = reader.place
        for index in 0..<number {
            var offsets = ByteReader(reader.bytes, at: table + index * width)
            guard try offsets.fixed(width: width) == reader.place - start else {
                throw .malformed("a field's offset is wrong", at: reader.place)
            }
            let key = try reader.text()
            if let last = node.fields.last, !utf8Precedes(last.key, key) {
                throw .malformed("keys do not ascend", at: reader.place)
            }
            node.fields.append(MapNode.Field(key: key, slot: try slot(inherited, depth: depth)))
        }
        guard (reader.place - start <= 0xFFFF) == (width == 2) else {
            throw .malformed("an offset width is not the shortest", at: reader.place)
        }
    }

    private mutating func slot(_ inherited: Stamp?, depth: Int) throws(CRDTError) -> Slot {
        let head = try reader.byte()
        guard head & ~SlotBits.known == 0, head & (SlotBits.register | SlotBits.map) != 0 else {
            throw .malformed("a slot of unknown kind", at: reader.place)
        }
        var slot = Slot()
        if head & SlotBits.register != 0 { slot.register = try register(head, inherited, depth: depth) }
        if head & SlotBits.register == 0, head & ~SlotBits.map != 0 {
            throw .malformed("a slot without register has register flags", at: reader.place)
        }
        if head & SlotBits.map != 0 {
            let length = try reader.count()
            let end = reader.place + length
            let map = try map(depth: depth + 1)
            guard reader.place == end, map.isVisible else {
                throw .malformed("a map's length is wrong", at: reader.place)
            }
            slot.map = map
        }
        return slot
    }

    private mutating func register(_ head: UInt8, _ inherited: Stamp?, depth: Int) throws(CRDTError) -> [Slot
        .Leaf]
    {
        let several = head & SlotBits.severalValues != 0
        let inherits = head & SlotBits.inheritsStamp != 0
        let number = several ? try reader.count(unit: 2) : 1
        guard several ? number > 1 && !inherits : true else {
            throw .malformed("a register's count", at: reader.place)
        }
        var leaves: [Slot.Leaf] = []
        for _ in 0..<number {
            let stamp = try inherits ? inherit(inherited) : stamp()
            guard inherits || several || stamp != inherited else {
                throw .malformed("a stamp is repeated that could be inherited", at: reader.place)
            }
            if let last = leaves.last, last.stamp >= stamp {
                throw .malformed("values do not ascend", at: reader.place)
            }
            leaves.append(Slot.Leaf(stamp: stamp, value: try reader.value(depth: depth + 1)))
        }
        return leaves
    }

    private func inherit(_ inherited: Stamp?) throws(CRDTError) -> Stamp {
        guard let inherited else { throw .malformed("nothing to inherit a stamp from", at: reader.place) }
        return inherited
    }

    private mutating func stamp() throws(CRDTError) -> Stamp {
        let place = try reader.index(below: stamps.count)
        used[place] = true
        return stamps[place]
    }
}

extension ByteReader {
    mutating func documentVersion() throws(CRDTError) {
        let version = try byte()
        guard version == Document.encodingVersion else {
            throw CRDTError(.unsupportedVersion, "document encoding version \(version) is not known here")
        }
        guard try byte() == 0 else { throw .malformed("unknown document flags", at: 1) }
    }
}
