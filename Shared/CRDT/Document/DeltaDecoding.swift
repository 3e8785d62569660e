extension Delta {
    /// Decodes a delta under its operation's stamp. Checks that it is canonical and that the stamp exceeds
    /// its base. Throws `truncated`, `malformed`, `unsupportedVersion`, `tooDeep`, `invalidUTF8`.
    public init(decoding delta: EncodedDelta, stamp: Stamp) throws(CRDTError) {
        let result = delta.bytes.withUnsafeBytes { raw -> Result<Delta, CRDTError> in
            Result { () throws(CRDTError) -> Delta in
                var decoder = DeltaDecoder(reader: ByteReader(raw), stamp: stamp)
                return try decoder.delta()
            }
        }
        self = try result.get()
    }
}

private struct DeltaDecoder {
    var reader: ByteReader
    let stamp: Stamp
    var base = VersionVector()
    /// True while decoding a seed: it clears nothing and increments nothing.
    var isSeed = false

    mutating func delta() throws(CRDTError) -> Delta {
        let version = try reader.byte()
        guard version == Delta.encodingVersion else {
            throw CRDTError(.unsupportedVersion, "delta encoding version \(version) is not known here")
        }
        let flags = try reader.byte()
        guard flags & ~DeltaBits.known == 0 else { throw .malformed("unknown delta flags", at: 1) }
        let base = try vector(ownBase: flags & DeltaBits.ownBase != 0)
        var seed: MapEdit?
        if flags & DeltaBits.seed != 0 {
            isSeed = true
            let edit = try edit(depth: 0)
            guard edit.writesPresence else {
                throw .malformed("a seed does not write the document's presence", at: reader.place)
            }
            seed = edit
        }
        isSeed = false
        self.base = base
        let root = try edit(depth: 0)
        try reader.requireEnd()
        let delta = Delta(stamp: stamp, base: base, root: root, seed: seed)
        if let seedStamp = delta.seedStamp {
            guard root.isEmpty ? base.isEmpty : base.covers(seedStamp) else {
                throw .malformed("a seed's base is wrong", at: reader.place)
            }
        }
        return delta
    }

    private mutating func vector(ownBase: Bool) throws(CRDTError) -> VersionVector {
        var own: VersionVector.Entry?
        if ownBase { own = VersionVector.Entry(actor: stamp.actor, time: try time(before: stamp.time)) }
        var entries: [VersionVector.Entry] = []
        var last: ActorID?
        for _ in 0..<(try reader.count(unit: 9)) {
            let actor = ActorID(try reader.fixed64())
            guard last.map({ $0 < actor }) ?? true, actor != stamp.actor else {
                throw .malformed("a base's actors do not ascend", at: reader.place)
            }
            if let author = own, author.actor < actor {
                entries.append(author)
                own = nil
            }
            last = actor
            entries.append(VersionVector.Entry(actor: actor, time: try time(before: stamp.time)))
        }
        if let own { entries.append(own) }
        return VersionVector(ascending: entries)
    }

    private mutating func time(before limit: Timestamp) throws(CRDTError) -> Timestamp {
        let back = try reader.varint()
        guard back > 0, back <= limit else {
            throw .malformed("a base is not before its stamp", at: reader.place)
        }
        return limit - back
    }

    private mutating func edit(depth: Int) throws(CRDTError) -> MapEdit {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let head = try reader.byte()
        guard head & ~EditBits.known == 0, !isSeed || head & EditBits.clears == 0 else {
            throw .malformed("an unknown map edit", at: reader.place)
        }
        var edit = MapEdit(
            clears: head & EditBits.clears != 0, writesPresence: head & EditBits.writesPresence != 0)
        guard head & EditBits.fields != 0 else { return edit }
        let number = try reader.count(unit: 2)
        guard number > 0 else { throw .malformed("an empty list of fields", at: reader.place) }
        edit.fields.reserveCapacity(min(number, 1_024))
        var last: UnsafeRawBufferPointer?
        for _ in 0..<number {
            let key = try reader.key(after: &last)
            edit.fields.append(MapEdit.FieldEdit(key: key, slot: try slot(depth: depth)))
        }
        return edit
    }

    private mutating func slot(depth: Int) throws(CRDTError) -> SlotEdit {
        let head = try reader.byte()
        let removals = SlotEditBits.clearsRegister | SlotEditBits.clearsAttachment
        guard head & ~SlotEditBits.known == 0, head != 0, !isSeed || head & removals == 0 else {
            throw .malformed("an unknown slot edit", at: reader.place)
        }
        var slot = SlotEdit(clearsRegister: head & SlotEditBits.clearsRegister != 0)
        if head & SlotEditBits.clearsAttachment != 0 { slot.clearsAttachment = true }
        if head & SlotEditBits.register != 0 { slot.register = try reader.value(depth: depth + 1) }
        if head & SlotEditBits.map != 0 { slot.map = try edit(depth: depth + 1) }
        if head & SlotEditBits.counter != 0 { slot.counter = try counter(depth: depth + 1) }
        if head & SlotEditBits.attachment != 0 {
            let token = try reader.value(depth: depth + 1)
            guard token.isAttachmentToken else {
                throw .malformed("an attachment without a token", at: reader.place)
            }
            slot.attachment = token
        }
        return slot
    }

    private mutating func counter(depth: Int) throws(CRDTError) -> CounterEdit {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let head = try reader.byte()
        guard head & ~CounterEditBits.known == 0, head != 0, !isSeed || head == CounterEditBits.restart else {
            throw .malformed("an unknown counter edit", at: reader.place)
        }
        let beginsSum = head & CounterEditBits.beginsSum != 0
        guard !beginsSum || head & CounterEditBits.amount != 0 else {
            throw .malformed("a new sum without an increment", at: reader.place)
        }
        var edit = CounterEdit(clearsRestarts: head & CounterEditBits.clearsRestarts != 0)
        if head & CounterEditBits.baselines != 0 { edit.baselines = try baselines() }
        if head & CounterEditBits.restart != 0 { edit.restart = try reader.number() }
        if head & CounterEditBits.amount != 0 { edit.amount = try reader.number() }
        edit.beginsSum = beginsSum
        return edit
    }

    private mutating func baselines() throws(CRDTError) -> [CounterEdit.Baseline] {
        let number = try reader.count(unit: 3)
        guard number > 0 else { throw .malformed("an empty list of baselines", at: reader.place) }
        var baselines: [CounterEdit.Baseline] = []
        for _ in 0..<number {
            let entry = base.entries[try reader.index(below: base.entries.count)]
            let back = try reader.varint()
            guard back <= entry.time, baselines.last.map({ $0.actor < entry.actor }) ?? true else {
                throw .malformed("a baseline's actor or time is wrong", at: reader.place)
            }
            baselines.append(
                CounterEdit.Baseline(
                    actor: entry.actor,
                    point: CounterNode.Point(time: entry.time - back, total: try reader.number())))
        }
        return baselines
    }
}
