// The document's binary encoding, version 1. Canonical: equal states have equal bytes, and only those bytes
// decode.
//
//   byte 0      version (1)
//   byte 1      flags (0; reserved for a compaction epoch and baselines that outlive their key)
//   vector      varint count, actors ascending (8 bytes each), their timestamps (8 bytes each)
//   stamps      varint byte length, varint count, per stamp: varint actor index, varint (that actor's
//     vector time - time);
//               ascending by (time, actor), exactly the stamps in use: so indexes compare like stamps
//   root MAP    see MapEncoding below
//
//   MAP         varint presence count, ascending stamp indexes (varints)
//               varint greatest stamp index beneath + 1 (0: the map is empty)
//               varint field count; if not 0: byte offset width (2 or 4), an offset per field into the
//                 fields' bytes
//               fields ascending by key bytes: varint key length, key, slot
//   slot        byte: bit 0 register, bit 1 map, bits 2 and 3 reserved for counter and attachment,
//               bit 4 register holds several values, bit 5 the register's one stamp is the map's greatest
//                 (not repeated)
//               register: [varint count] then per value [varint stamp index] value
//               map: varint byte length, MAP

extension Document {
    static let encodingVersion: UInt8 = 1

    /// The canonical bytes of this state.
    public func encoded() -> [UInt8] {
        var stamps = Set<Stamp>()
        root.collect(&stamps)
        let table = stamps.sorted()
        var index: [Stamp: Int] = [:]
        for (place, stamp) in table.enumerated() { index[stamp] = place }
        var writer = ByteWriter()
        writer.byte(Document.encodingVersion)
        writer.byte(0)
        writer.vector(vector)
        writer.sized { inner in
            inner.count(table.count)
            for stamp in table { inner.stamp(stamp, in: vector) }
        }
        writer.map(root, index)
        return writer.bytes
    }
}

extension ByteWriter {
    mutating func stamp(_ stamp: Stamp, in vector: VersionVector) {
        guard let place = vector.entries.firstIndex(where: { $0.actor == stamp.actor }),
            vector.entries[place].time >= stamp.time
        else { preconditionFailure("a state holds a stamp that its vector does not cover") }
        count(place)
        varint(vector.entries[place].time - stamp.time)
    }

    mutating func map(_ node: MapNode, _ index: [Stamp: Int]) {
        func place(_ stamp: Stamp) -> Int {
            guard let found = index[stamp] else { preconditionFailure("a stamp is missing from the table") }
            return found
        }
        count(node.presence.count)
        for stamp in node.presence { count(place(stamp)) }
        let greatest = node.maxStamp
        count(greatest.map { place($0) + 1 } ?? 0)
        count(node.fields.count)
        guard !node.fields.isEmpty else { return }
        var offsets: [Int] = []
        var fields = ByteWriter()
        for field in node.fields {
            offsets.append(fields.bytes.count)
            fields.text(field.key)
            fields.slot(field.slot, default: greatest, index)
        }
        let width = fields.bytes.count <= 0xFFFF ? 2 : 4
        byte(UInt8(width))
        for offset in offsets { fixed(offset, width: width) }
        raw(fields.bytes)
    }

    private mutating func slot(_ slot: Slot, default greatest: Stamp?, _ index: [Stamp: Int]) {
        let several = slot.register.count > 1
        let inherits = slot.register.count == 1 && slot.register[0].stamp == greatest
        var head: UInt8 = 0
        if !slot.register.isEmpty { head |= SlotBits.register }
        if slot.map != nil { head |= SlotBits.map }
        if several { head |= SlotBits.severalValues }
        if inherits { head |= SlotBits.inheritsStamp }
        byte(head)
        if several { count(slot.register.count) }
        for leaf in slot.register {
            if !inherits { count(index[leaf.stamp] ?? 0) }
            value(leaf.value)
        }
        if let map = slot.map { sized { $0.map(map, index) } }
    }
}

/// The bits of a slot's first byte.
enum SlotBits {
    static let register: UInt8 = 1 << 0
    static let map: UInt8 = 1 << 1
    static let severalValues: UInt8 = 1 << 4
    static let inheritsStamp: UInt8 = 1 << 5
    static let known: UInt8 = register | map | severalValues | inheritsStamp
}

extension MapNode {
    func collect(_ stamps: inout Set<Stamp>) {
        stamps.formUnion(presence)
        for field in fields {
            for leaf in field.slot.register { stamps.insert(leaf.stamp) }
            field.slot.map?.collect(&stamps)
        }
    }
}
