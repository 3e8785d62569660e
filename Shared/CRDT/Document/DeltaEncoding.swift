// A delta's encoding, version 1. Self-contained but for the stamp, which its operation states once; so a
// delta is encoded once and shared by every receiver.
//
//   byte 0   version (1)
//   byte 1   flags: bit 0 the base holds the author's own actor
//   base     [varint (stamp time - own time)], varint count of other actors, per actor ascending: 8 bytes,
//     varint
//            (stamp time - time); every base time is before the stamp
//   MAP edit byte: bit 0 clears, bit 1 writes presence, bit 2 has fields; then varint count, per field
//     ascending by key:
//            varint key length, key, slot edit
//   slot     byte: bit 0 clears the register, bit 1 writes the register (value follows), bit 2 map edit
//     follows

extension Delta {
    static let encodingVersion: UInt8 = 1

    /// The canonical bytes, without the stamp.
    public func encoded() -> [UInt8] {
        var writer = ByteWriter()
        writer.byte(Delta.encodingVersion)
        let own = base[stamp.actor]
        writer.byte(own == nil ? 0 : 1)
        if let own { writer.varint(stamp.time - own) }
        let others = base.entries.filter { $0.actor != stamp.actor }
        writer.count(others.count)
        for entry in others {
            writer.fixed64(entry.actor.rawValue)
            writer.varint(stamp.time - entry.time)
        }
        writer.edit(root)
        return writer.bytes
    }

    /// Decodes a delta under its operation's stamp, checking that it is canonical and that the stamp
    /// exceeds its base.
    public init(decoding bytes: [UInt8], stamp: Stamp) throws(CRDTError) {
        let result = bytes.withUnsafeBytes { raw -> Result<Delta, CRDTError> in
            Result { () throws(CRDTError) -> Delta in
                var reader = ByteReader(raw)
                let base = try reader.base(stamp)
                let root = try reader.edit(depth: 0)
                try reader.requireEnd()
                return Delta(stamp: stamp, base: base, root: root)
            }
        }
        self = try result.get()
    }
}

private enum EditBits {
    static let clears: UInt8 = 1 << 0
    static let writes: UInt8 = 1 << 1
    static let below: UInt8 = 1 << 2
}

extension ByteWriter {
    fileprivate mutating func edit(_ edit: MapEdit) {
        byte(
            (edit.clears ? EditBits.clears : 0) | (edit.writesPresence ? EditBits.writes : 0)
                | (edit.fields.isEmpty ? 0 : EditBits.below))
        guard !edit.fields.isEmpty else { return }
        count(edit.fields.count)
        for field in edit.fields {
            text(field.key)
            let slot = field.slot
            byte(
                (slot.clearsRegister ? EditBits.clears : 0) | (slot.register == nil ? 0 : EditBits.writes)
                    | (slot.map == nil ? 0 : EditBits.below))
            if let written = slot.register { value(written) }
            if let map = slot.map { self.edit(map) }
        }
    }
}

extension ByteReader {
    fileprivate mutating func base(_ stamp: Stamp) throws(CRDTError) -> VersionVector {
        let version = try byte()
        guard version == Delta.encodingVersion else {
            throw CRDTError(.unsupportedVersion, "delta encoding version \(version) is not known here")
        }
        let flags = try byte()
        guard flags <= 1 else { throw .malformed("unknown delta flags", at: 1) }
        var entries: [VersionVector.Entry] = []
        if flags == 1 { entries.append(.init(actor: stamp.actor, time: try time(before: stamp))) }
        let others = try count(unit: 9)
        var last: ActorID?
        for _ in 0..<others {
            let actor = ActorID(try fixed64())
            guard last.map({ $0 < actor }) ?? true, actor != stamp.actor else {
                throw .malformed("a base's actors do not ascend", at: place)
            }
            last = actor
            entries.append(.init(actor: actor, time: try time(before: stamp)))
        }
        return VersionVector(entries)
    }

    private mutating func time(before stamp: Stamp) throws(CRDTError) -> Timestamp {
        let back = try varint()
        guard back > 0, back <= stamp.time else {
            throw .malformed("a base is not before its stamp", at: place)
        }
        return stamp.time - back
    }

    fileprivate mutating func edit(depth: Int) throws(CRDTError) -> MapEdit {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        let head = try byte()
        guard head <= 7 else { throw .malformed("an unknown map edit", at: place) }
        var edit = MapEdit(clears: head & EditBits.clears != 0, writesPresence: head & EditBits.writes != 0)
        guard head & EditBits.below != 0 else { return edit }
        let number = try count(unit: 2)
        guard number > 0 else { throw .malformed("an empty list of fields", at: place) }
        for _ in 0..<number {
            let key = try text()
            if let last = edit.fields.last, !utf8Precedes(last.key, key) {
                throw .malformed("keys do not ascend", at: place)
            }
            edit.fields.append(MapEdit.FieldEdit(key: key, slot: try slotEdit(depth: depth)))
        }
        return edit
    }

    private mutating func slotEdit(depth: Int) throws(CRDTError) -> SlotEdit {
        let head = try byte()
        guard head <= 7, head != 0 else { throw .malformed("an unknown slot edit", at: place) }
        var slot = SlotEdit(clearsRegister: head & EditBits.clears != 0)
        if head & EditBits.writes != 0 { slot.register = try value(depth: depth + 1) }
        if head & EditBits.below != 0 { slot.map = try edit(depth: depth + 1) }
        return slot
    }
}
