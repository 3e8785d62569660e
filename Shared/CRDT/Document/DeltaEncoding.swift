// A delta's encoding, version 1; Encoding.md is its specification. It does not hold the stamp, which its
// operation states once. A delta is encoded once and shared by all receivers.

extension Delta {
    static let encodingVersion: UInt8 = 1

    /// The canonical bytes, without the stamp.
    public func encoded() -> EncodedDelta {
        var writer = ByteWriter()
        writer.reserve(128 + 32 * root.fields.count)
        writer.byte(Delta.encodingVersion)
        let own = base[stamp.actor]
        writer.byte((own == nil ? 0 : DeltaBits.ownBase) | (seed == nil ? 0 : DeltaBits.seed))
        if let own { writer.varint(stamp.time - own) }
        writer.count(base.entries.count - (own == nil ? 0 : 1))
        for entry in base.entries where entry.actor != stamp.actor {
            writer.fixed64(entry.actor.rawValue)
            writer.varint(stamp.time - entry.time)
        }
        if let seed { writer.edit(seed, base: VersionVector()) }
        writer.edit(root, base: base)
        return EncodedDelta(writer.bytes)
    }
}

enum DeltaBits {
    static let ownBase: UInt8 = 1 << 0
    static let seed: UInt8 = 1 << 1
    static let known: UInt8 = ownBase | seed
}

/// The bits of a map edit's first byte.
enum EditBits {
    static let clears: UInt8 = 1 << 0
    static let writesPresence: UInt8 = 1 << 1
    static let fields: UInt8 = 1 << 2
    static let known: UInt8 = clears | writesPresence | fields
}

/// The bits of a slot edit's first byte.
enum SlotEditBits {
    static let clearsRegister: UInt8 = 1 << 0
    static let register: UInt8 = 1 << 1
    static let map: UInt8 = 1 << 2
    static let counter: UInt8 = 1 << 3
    static let clearsAttachment: UInt8 = 1 << 4
    static let attachment: UInt8 = 1 << 5
    static let known: UInt8 = 0b11_1111
}

/// The bits of a counter edit's first byte.
enum CounterEditBits {
    static let baselines: UInt8 = 1 << 0
    static let clearsRestarts: UInt8 = 1 << 1
    static let restart: UInt8 = 1 << 2
    static let amount: UInt8 = 1 << 3
    static let beginsSum: UInt8 = 1 << 4
    static let known: UInt8 = 0b1_1111
}

extension ByteWriter {
    mutating func edit(_ edit: MapEdit, base: VersionVector) {
        byte(
            (edit.clears ? EditBits.clears : 0) | (edit.writesPresence ? EditBits.writesPresence : 0)
                | (edit.fields.isEmpty ? 0 : EditBits.fields))
        guard !edit.fields.isEmpty else { return }
        count(edit.fields.count)
        for field in edit.fields {
            text(field.key)
            slotEdit(field.slot, base: base)
        }
    }

    private mutating func slotEdit(_ slot: SlotEdit, base: VersionVector) {
        var head: UInt8 = 0
        if slot.clearsRegister { head |= SlotEditBits.clearsRegister }
        if slot.register != nil { head |= SlotEditBits.register }
        if slot.map != nil { head |= SlotEditBits.map }
        if slot.counter != nil { head |= SlotEditBits.counter }
        if slot.clearsAttachment { head |= SlotEditBits.clearsAttachment }
        if slot.attachment != nil { head |= SlotEditBits.attachment }
        byte(head)
        if let written = slot.register { value(written) }
        if let map = slot.map { edit(map, base: base) }
        if let counter = slot.counter { counterEdit(counter, base: base) }
        if let token = slot.attachment { value(token) }
    }

    private mutating func counterEdit(_ edit: CounterEdit, base: VersionVector) {
        var head: UInt8 = 0
        if !edit.baselines.isEmpty { head |= CounterEditBits.baselines }
        if edit.clearsRestarts { head |= CounterEditBits.clearsRestarts }
        if edit.restart != nil { head |= CounterEditBits.restart }
        if edit.amount != nil { head |= CounterEditBits.amount }
        if edit.beginsSum { head |= CounterEditBits.beginsSum }
        byte(head)
        if !edit.baselines.isEmpty { count(edit.baselines.count) }
        for baseline in edit.baselines {
            guard let place = base.place(of: baseline.actor), base.entries[place].time >= baseline.point.time
            else { preconditionFailure("a removal saw what its base does not cover") }
            count(place)
            varint(base.entries[place].time - baseline.point.time)
            value(baseline.point.total)
        }
        if let restart = edit.restart { value(restart) }
        if let amount = edit.amount { value(amount) }
    }
}
