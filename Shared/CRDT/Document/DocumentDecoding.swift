extension Document {
    /// Decodes a whole state and checks everything: version, order, shortest forms, that every stamp is
    /// covered and used. Bytes that decode encode to themselves. Throws `truncated`, `malformed`,
    /// `unsupportedVersion`, `tooDeep`, `invalidUTF8`.
    public init(decoding state: EncodedState) throws(CRDTError) {
        let result = state.bytes.withUnsafeBytes { raw -> Result<Document, CRDTError> in
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

/// Decodes the tree after a document's header and notes which stamps it meets.
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
        for _ in 0..<presence { node.presence.append(try stamp(after: node.presence.last)) }
        let greatest = try reader.index(below: stamps.count + 1)
        // Used by every field that inherits it. The check below makes sure that something beneath carries
        // it.
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
        node.fields.reserveCapacity(min(number, 1_024))
        var last: UnsafeRawBufferPointer?
        for index in 0..<number {
            var offsets = ByteReader(reader.bytes, at: table + index * width)
            guard try offsets.fixed(width: width) == reader.place - start else {
                throw .malformed("a field's offset is wrong", at: reader.place)
            }
            node.fields.append(MapNode.Field(key: try reader.key(after: &last), slot: Slot()))
            try slot(into: &node.fields[index].slot, inherited, depth: depth)
        }
        guard (reader.place - start <= 0xFFFF) == (width == 2) else {
            throw .malformed("an offset width is not the shortest", at: reader.place)
        }
    }

    private mutating func slot(into slot: inout Slot, _ inherited: Stamp?, depth: Int) throws(CRDTError) {
        let head = try reader.byte()
        guard head & SlotBits.kinds != 0 else { throw .malformed("a slot without a kind", at: reader.place) }
        let needsRegister = head & SlotBits.ofRegister != 0
        let needsAttachment = head & SlotBits.ofAttachment != 0
        guard !needsRegister || head & SlotBits.register != 0,
            !needsAttachment || head & SlotBits.attachment != 0
        else { throw .malformed("a slot has flags of a kind that it lacks", at: reader.place) }
        // Split into parts, so that the frame that recurses stays small on a worker's stack.
        if head & SlotBits.register != 0 { try register(into: &slot, head, inherited, depth: depth) }
        if head & SlotBits.map != 0 { slot.map = try sizedMap(depth: depth + 1) }
        if head & SlotBits.counter != 0 { try counter(into: &slot, depth: depth + 1) }
        if head & SlotBits.attachment != 0 { try attachment(into: &slot, head, inherited, depth: depth) }
    }

    private mutating func register(into slot: inout Slot, _ head: UInt8, _ inherited: Stamp?, depth: Int)
        throws(CRDTError)
    {
        slot.register = try leaves(
            several: head & SlotBits.severalValues != 0, inherits: head & SlotBits.inheritsStamp != 0,
            inherited, depth: depth)
    }

    private mutating func sizedMap(depth: Int) throws(CRDTError) -> MapNode {
        let end = try length()
        let map = try map(depth: depth)
        guard reader.place == end, !map.isEmpty else {
            throw .malformed("a map's length is wrong", at: reader.place)
        }
        return map
    }

    private mutating func counter(into slot: inout Slot, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let end = try length()
        let counter = try counter()
        guard reader.place == end, !counter.isEmpty else {
            throw .malformed("a counter's length is wrong", at: reader.place)
        }
        slot.counter = counter
    }

    private mutating func attachment(into slot: inout Slot, _ head: UInt8, _ inherited: Stamp?, depth: Int)
        throws(CRDTError)
    {
        slot.attachment = try leaves(
            several: head & SlotBits.severalTokens != 0,
            inherits: head & SlotBits.inheritsTokenStamp != 0, inherited, depth: depth)
        guard slot.attachment.allSatisfy({ $0.value.isAttachmentToken }) else {
            throw .malformed("an attachment without a token", at: reader.place)
        }
    }

    /// Reads a length; returns the place where the part of that length ends.
    private mutating func length() throws(CRDTError) -> Int {
        let length = try reader.count()
        return reader.place + length
    }

    private mutating func leaves(
        several: Bool, inherits: Bool, _ inherited: Stamp?, depth: Int
    ) throws(CRDTError) -> Leaves {
        guard several else {
            let stamp = try inherits ? inherit(inherited) : stamp()
            guard inherits || stamp != inherited else {
                throw .malformed("a stamp is repeated that could be inherited", at: reader.place)
            }
            return Leaves(Leaves.Leaf(stamp: stamp, value: try reader.value(depth: depth + 1)))
        }
        let number = try reader.count(unit: 2)
        guard number > 1, !inherits else { throw .malformed("a field's number of values", at: reader.place) }
        var leaves: [Leaves.Leaf] = []
        for _ in 0..<number {
            let stamp = try stamp(after: leaves.last?.stamp)
            leaves.append(Leaves.Leaf(stamp: stamp, value: try reader.value(depth: depth + 1)))
        }
        return Leaves(ascending: leaves)
    }

    private mutating func counter() throws(CRDTError) -> CounterNode {
        var counter = CounterNode()
        let greatest = try reader.index(below: stamps.count + 1)
        let number = try reader.count(unit: 2)
        var restarts: [Leaves.Leaf] = []
        for _ in 0..<number {
            let stamp = try stamp(after: restarts.last?.stamp)
            restarts.append(Leaves.Leaf(stamp: stamp, value: try reader.number()))
        }
        counter.restarts = Leaves(ascending: restarts)
        for _ in 0..<(try reader.count(unit: 2)) {
            let entry = try entry()
            if let last = counter.entries.last, last.actor >= entry.actor {
                throw .malformed("a counter's actors do not ascend", at: reader.place)
            }
            counter.entries.append(entry)
        }
        guard counter.maxStamp == (greatest == 0 ? nil : stamps[greatest - 1]) else {
            throw .malformed("a counter's greatest stamp is wrong", at: reader.place)
        }
        return counter
    }

    private mutating func entry() throws(CRDTError) -> CounterNode.Entry {
        let head = try reader.varint()
        guard head >> 2 < UInt64(stamps.count) else {
            throw .malformed("an index is out of range", at: reader.place)
        }
        let stamp = use(Int(head >> 2))
        let point = CounterNode.Point(time: stamp.time, total: try reader.number())
        switch head & 3 {
        case EntryForm.unseen: return CounterNode.Entry(actor: stamp.actor, point: point)
        case EntryForm.seen: return CounterNode.Entry(actor: stamp.actor, point: point, baseline: point)
        default:
            let isNewSum = head & 3 == EntryForm.newSum
            let seen = try self.stamp()
            let baseline = CounterNode.Point(time: seen.time, total: try reader.number())
            guard seen.actor == stamp.actor,
                isNewSum ? baseline.time < point.time : baseline.isBefore(point)
            else {
                throw .malformed("a baseline is not before its entry", at: reader.place)
            }
            var entry = CounterNode.Entry(actor: stamp.actor, point: point, baseline: baseline)
            if isNewSum { entry.point.since = baseline.time }
            return entry
        }
    }

    private func inherit(_ inherited: Stamp?) throws(CRDTError) -> Stamp {
        guard let inherited else { throw .malformed("nothing to inherit a stamp from", at: reader.place) }
        return inherited
    }

    private mutating func stamp() throws(CRDTError) -> Stamp {
        use(try reader.index(below: stamps.count))
    }

    private mutating func stamp(after last: Stamp?) throws(CRDTError) -> Stamp {
        let stamp = try stamp()
        guard last.map({ $0 < stamp }) ?? true else {
            throw .malformed("stamps of a field do not ascend", at: reader.place)
        }
        return stamp
    }

    private mutating func use(_ index: Int) -> Stamp {
        used[index] = true
        return stamps[index]
    }
}

extension Value {
    /// True if this is a token in the form of states and deltas.
    var isAttachmentToken: Bool { objectValue?.count == 3 && AttachmentToken(self) != nil }
}

extension ByteReader {
    mutating func documentVersion() throws(CRDTError) {
        let version = try byte()
        guard version == Document.encodingVersion else {
            throw CRDTError(.unsupportedVersion, "document encoding version \(version) is not known here")
        }
        guard try byte() == 0 else { throw .malformed("unknown document flags", at: 1) }
    }

    /// A value that a counter can hold.
    mutating func number() throws(CRDTError) -> Value {
        let number = try value(depth: 0)
        guard CounterSum.isNumber(number) else { throw .malformed("not a counter's number", at: place) }
        return number
    }
}
