/// A MAP: the stamps that created it and the fields below.
///
/// Invariants: `presence` ascends; fields ascend by key bytes; no field is empty. A field may be invisible:
/// the residue of a removed counter outlives its key (rule 4). `maxStamp` is derived when encoding.
struct MapNode: Sendable, Equatable {
    var presence: [Stamp] = []
    var fields: [Field] = []

    /// One key and the slot under it.
    struct Field: Sendable, Equatable {
        let key: String
        var slot: Slot

        static func == (left: Field, right: Field) -> Bool {
            utf8Equal(left.key, right.key) && left.slot == right.slot
        }
    }

    /// True if nothing at all is left here.
    var isEmpty: Bool { presence.isEmpty && fields.isEmpty }

    /// A map is visible while a write that created it survives, or anything below it is visible.
    var isVisible: Bool { !presence.isEmpty || fields.contains { $0.slot.isVisible } }

    subscript(key: String) -> Slot? {
        let place = position(of: key)
        return place.found ? fields[place.index].slot : nil
    }

    /// The slot at the end of a path of maps; nil for the empty path.
    subscript(path: ArraySlice<String>) -> Slot? {
        guard let key = path.first, let slot = self[key] else { return nil }
        return path.count == 1 ? slot : slot.map?[path.dropFirst()]
    }

    /// The greatest surviving stamp in this map, its own presence included; nil when it is not visible.
    var maxStamp: Stamp? {
        var greatest = presence.last
        for field in fields { greatest = greater(greatest, field.slot.maxStamp) }
        return greatest
    }

    var value: ObjectValue {
        ObjectValue(
            unique: fields.compactMap { field in field.slot.value.map { (key: field.key, value: $0) } })
    }

    func position(of key: String) -> (index: Int, found: Bool) {
        var low = 0
        var high = fields.count
        while low < high {
            let middle = (low + high) / 2
            let order = compareUTF8(fields[middle].key, key)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }
}
