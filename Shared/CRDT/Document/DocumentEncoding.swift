// The document's binary encoding, version 1; Encoding.md is its specification. Canonical: equal states have
// equal bytes, and only those bytes decode.

extension Document {
    static let encodingVersion: UInt8 = 1

    /// The canonical bytes of this state.
    public func encoded() -> EncodedState {
        var table = StampTable(of: root)
        var writer = ByteWriter()
        writer.reserve(256 + 32 * root.fields.count)
        writer.byte(Document.encodingVersion)
        writer.byte(0)
        writer.vector(vector)
        let start = writer.beginSized()
        writer.count(table.stamps.count)
        for stamp in table.stamps { writer.stamp(stamp, in: vector) }
        writer.endSized(start)
        writer.map(root, greatest: root.maxStamp, &table)
        return EncodedState(writer.bytes)
    }
}

/// The bits of a slot's first byte.
enum SlotBits {
    static let register: UInt8 = 1 << 0
    static let map: UInt8 = 1 << 1
    static let counter: UInt8 = 1 << 2
    static let attachment: UInt8 = 1 << 3
    /// The register holds several values.
    static let severalValues: UInt8 = 1 << 4
    /// The register's only value has the greatest stamp of the map that holds the slot.
    static let inheritsStamp: UInt8 = 1 << 5
    /// The same two flags for the attachment.
    static let severalTokens: UInt8 = 1 << 6
    static let inheritsTokenStamp: UInt8 = 1 << 7
    static let kinds: UInt8 = register | map | counter | attachment
    /// The flags of both kinds.
    static let several: UInt8 = severalValues | severalTokens
    static let inherits: UInt8 = inheritsStamp | inheritsTokenStamp
    static let ofRegister: UInt8 = severalValues | inheritsStamp
    static let ofAttachment: UInt8 = severalTokens | inheritsTokenStamp
}

/// How much of a counter's entry removals have seen: the lower two bits beside its stamp's index.
enum EntryForm {
    static let unseen: UInt64 = 0
    static let seen: UInt64 = 1
    static let seenBefore: UInt64 = 2
    /// The baseline follows, and the total counts from there: a new sum.
    static let newSum: UInt64 = 3
}

/// The stamps that a tree uses, ascending, so that indexes compare like stamps.
struct StampTable {
    private(set) var stamps: [Stamp] = []
    /// The last lookup: neighbouring fields mostly have the same stamp.
    private var latest: (stamp: Stamp, index: Int)?

    init(of root: MapNode) {
        collect(root)
        stamps.sort()
        var kept = 0
        for stamp in stamps where kept == 0 || stamps[kept - 1] != stamp {
            stamps[kept] = stamp
            kept += 1
        }
        stamps.removeSubrange(kept...)
    }

    mutating func index(of stamp: Stamp) -> Int {
        if let latest, latest.stamp == stamp { return latest.index }
        var low = 0
        var high = stamps.count
        while low < high {
            let middle = (low + high) / 2
            if stamps[middle] < stamp { low = middle + 1 } else { high = middle }
        }
        precondition(low < stamps.count && stamps[low] == stamp, "a stamp is missing from the table")
        latest = (stamp, low)
        return low
    }

    private mutating func add(_ stamp: Stamp) {
        if stamps.last != stamp { stamps.append(stamp) }
    }

    private mutating func collect(_ node: MapNode) {
        for stamp in node.presence { add(stamp) }
        for field in node.fields {
            field.slot.register.appendStamps(to: &stamps)
            if let map = field.slot.map { collect(map) }
            if field.slot.isPlain { continue }
            field.slot.attachment.appendStamps(to: &stamps)
            if let counter = field.slot.counter { collect(counter) }
        }
    }

    private mutating func collect(_ counter: CounterNode) {
        counter.restarts.appendStamps(to: &stamps)
        for entry in counter.entries {
            add(entry.stamp)
            if let baseline = entry.baseline { add(Stamp(time: baseline.time, actor: entry.actor)) }
        }
    }
}

extension ByteWriter {
    fileprivate mutating func stamp(_ stamp: Stamp, in vector: VersionVector) {
        guard let place = vector.place(of: stamp.actor), vector.entries[place].time >= stamp.time
        else { preconditionFailure("a state holds a stamp that its vector does not cover") }
        count(place)
        varint(vector.entries[place].time - stamp.time)
    }

    fileprivate mutating func map(_ node: MapNode, greatest: Stamp?, _ table: inout StampTable) {
        count(node.presence.count)
        for stamp in node.presence { count(table.index(of: stamp)) }
        count(greatest.map { table.index(of: $0) + 1 } ?? 0)
        count(node.fields.count)
        guard !node.fields.isEmpty else { return }
        var offsets = beginOffsets(node.fields.count)
        for field in node.fields {
            place(&offsets)
            text(field.key)
            slot(field.slot, default: greatest, &table)
        }
        endOffsets(offsets)
    }

    private mutating func slot(_ slot: Slot, default greatest: Stamp?, _ table: inout StampTable) {
        let attachment = slot.attachment
        let counter = slot.counter
        let inherits = slot.register.count == 1 && slot.register.newest == greatest
        let inheritsToken = attachment.count == 1 && attachment.newest == greatest
        var head: UInt8 = 0
        if !slot.register.isEmpty { head |= SlotBits.register }
        if slot.map != nil { head |= SlotBits.map }
        if counter != nil { head |= SlotBits.counter }
        if !attachment.isEmpty { head |= SlotBits.attachment }
        if slot.register.count > 1 { head |= SlotBits.severalValues }
        if inherits { head |= SlotBits.inheritsStamp }
        if attachment.count > 1 { head |= SlotBits.severalTokens }
        if inheritsToken { head |= SlotBits.inheritsTokenStamp }
        byte(head)
        leaves(slot.register, inherits: inherits, &table)
        if let map = slot.map {
            let start = beginSized()
            self.map(map, greatest: map.maxStamp, &table)
            endSized(start)
        }
        if let counter { sizedCounter(counter, &table) }
        leaves(attachment, inherits: inheritsToken, &table)
    }

    private mutating func sizedCounter(_ counter: CounterNode, _ table: inout StampTable) {
        let start = beginSized()
        self.counter(counter, &table)
        endSized(start)
    }

    private mutating func leaves(_ leaves: Leaves, inherits: Bool, _ table: inout StampTable) {
        if leaves.count > 1 { count(leaves.count) }
        for leaf in leaves {
            if !inherits { count(table.index(of: leaf.stamp)) }
            value(leaf.value)
        }
    }

    private mutating func counter(_ counter: CounterNode, _ table: inout StampTable) {
        count(counter.maxStamp.map { table.index(of: $0) + 1 } ?? 0)
        count(counter.restarts.count)
        for leaf in counter.restarts {
            count(table.index(of: leaf.stamp))
            value(leaf.value)
        }
        count(counter.entries.count)
        for entry in counter.entries {
            let index = UInt64(table.index(of: entry.stamp))
            switch entry.baseline {
            case nil:
                varint(index << 2 | EntryForm.unseen)
                value(entry.point.total)
            case entry.point?:
                varint(index << 2 | EntryForm.seen)
                value(entry.point.total)
            case let baseline?:
                varint(index << 2 | (entry.point.since == nil ? EntryForm.seenBefore : EntryForm.newSum))
                value(entry.point.total)
                count(table.index(of: Stamp(time: baseline.time, actor: entry.actor)))
                value(baseline.total)
            }
        }
    }
}
