// What one transaction does to one document, as a tree: first remove what was observed, then write.
//
// Edits compose: applying the parts one after another within one transaction equals applying their
// composition, because a removal or write also observes its own transaction's earlier writes.

/// The change of one MAP.
struct MapEdit: Sendable, Equatable {
    /// Remove everything observed in this map, its presence included.
    var clears = false
    /// Write the map's presence (it was created, or written as a whole).
    var writesPresence = false
    /// Changes below, ascending by key bytes.
    var fields: [FieldEdit] = []

    struct FieldEdit: Sendable, Equatable {
        let key: String
        var slot: SlotEdit

        static func == (left: FieldEdit, right: FieldEdit) -> Bool {
            utf8Equal(left.key, right.key) && left.slot == right.slot
        }
    }

    var isEmpty: Bool { !clears && !writesPresence && fields.isEmpty }

    mutating func withSlot(_ key: String, _ body: (inout SlotEdit) -> Void) {
        var index = 0
        var end = fields.count
        while index < end {
            let middle = (index + end) / 2
            if utf8Precedes(fields[middle].key, key) { index = middle + 1 } else { end = middle }
        }
        if index == fields.count || !utf8Equal(fields[index].key, key) {
            fields.insert(FieldEdit(key: key, slot: SlotEdit()), at: index)
        }
        body(&fields[index].slot)
    }
}

/// The change under one key.
struct SlotEdit: Sendable, Equatable {
    /// Remove the observed values of the register. A write replaces them anyway.
    var clearsRegister = false
    /// The register's new value.
    var register: Value?
    /// What happens to the map under this key.
    var map: MapEdit?

    mutating func unset(_ kind: FieldKind?) {
        if kind == nil || kind == .register {
            clearsRegister = true
            register = nil
        }
        if kind == nil || kind == .map { map = MapEdit(clears: true) }
    }
}

extension MapNode {
    mutating func apply(_ edit: MapEdit, observed: Observed, stamp: Stamp) {
        if edit.clears { removeObserved(observed) }
        if edit.writesPresence {
            presence.removeAll(where: observed.contains)
            presence.append(stamp)
            presence.sort()
        }
        for field in edit.fields {
            withSlot(field.key) { $0.apply(field.slot, observed: observed, stamp: stamp) }
        }
    }

    mutating func removeObserved(_ observed: Observed) {
        presence.removeAll(where: observed.contains)
        for index in fields.indices.reversed() {
            fields[index].slot.removeObserved(nil, observed)
            if fields[index].slot.isEmpty { fields.remove(at: index) }
        }
    }
}

extension Slot {
    mutating func apply(_ edit: SlotEdit, observed: Observed, stamp: Stamp) {
        if edit.clearsRegister { removeObserved(.register, observed) }
        if let value = edit.register {
            register.removeAll { observed.contains($0.stamp) }
            register.append(Leaf(stamp: stamp, value: value))
            register.sort { $0.stamp < $1.stamp }
        }
        if let below = edit.map {
            var node = map ?? MapNode()
            node.apply(below, observed: observed, stamp: stamp)
            map = node.isVisible ? node : nil
        }
    }

    mutating func removeObserved(_ kind: FieldKind?, _ observed: Observed) {
        if kind == nil || kind == .register { register.removeAll { observed.contains($0.stamp) } }
        if kind == nil || kind == .map, var node = map {
            node.removeObserved(observed)
            map = node.isVisible ? node : nil
        }
    }
}
