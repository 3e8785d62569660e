// Applying an edit to a tree: the write observes the stamps that its base covers; everything else survives.

/// The stamps that a write observed: those that its base covers and, while its transaction is open, the
/// transaction's earlier writes. The context of a removal never holds the stamp of another write (rule 1).
struct Observed {
    let base: VersionVector
    let own: Stamp?

    /// A seed observes nothing, wherever it arrives.
    static var nothing: Observed { Observed(base: VersionVector(), own: nil) }

    func contains(_ stamp: Stamp) -> Bool { stamp == own || base.covers(stamp) }
}

extension MapNode {
    mutating func apply(_ edit: MapEdit, observed: Observed, stamp: Stamp) {
        if edit.clears { removeObserved(observed) }
        if edit.writesPresence {
            presence.removeAll(where: observed.contains)
            presence.append(stamp)
            presence.sort()
        }
        // For fewer edits, a search per field is faster than a walk over all fields.
        if edit.fields.count > 8, edit.fields.count > fields.count / 16 {
            applyAll(edit.fields, observed: observed, stamp: stamp)
        } else {
            for field in edit.fields { apply(field, observed: observed, stamp: stamp) }
        }
    }

    private mutating func apply(_ edit: MapEdit.FieldEdit, observed: Observed, stamp: Stamp) {
        let place = position(of: edit.key)
        if place.found {
            fields[place.index].slot.apply(edit.slot, observed: observed, stamp: stamp)
            if fields[place.index].slot.isEmpty { fields.remove(at: place.index) }
        } else {
            var slot = Slot()
            slot.apply(edit.slot, observed: observed, stamp: stamp)
            if !slot.isEmpty { fields.insert(Field(key: edit.key, slot: slot), at: place.index) }
        }
    }

    /// Applies the edits in one walk over fields and edits, which both ascend. Changes existing fields in
    /// place and merges in new ones at the end.
    private mutating func applyAll(_ edits: [MapEdit.FieldEdit], observed: Observed, stamp: Stamp) {
        var added: [Field] = []
        var hasEmpty = false
        var index = 0
        let end = fields.count
        // Edits are read in place: copying each would cost as much as applying it.
        edits.withUnsafeBufferPointer { edits in
            for number in edits.indices {
                var order = 1
                while index < end {
                    order = compareUTF8(fields[index].key, edits[number].key)
                    if order >= 0 { break }
                    index += 1
                }
                if index < end, order == 0 {
                    fields[index].slot.apply(edits[number].slot, observed: observed, stamp: stamp)
                    if fields[index].slot.isEmpty { hasEmpty = true }
                    index += 1
                } else {
                    var slot = Slot()
                    slot.apply(edits[number].slot, observed: observed, stamp: stamp)
                    if !slot.isEmpty { added.append(Field(key: edits[number].key, slot: slot)) }
                }
            }
        }
        if hasEmpty { fields.removeAll { $0.slot.isEmpty } }
        if !added.isEmpty { insert(added) }
    }

    /// Merges in fields that ascend and whose keys are new.
    private mutating func insert(_ added: [Field]) {
        guard let last = fields.last, utf8Precedes(added[0].key, last.key) else {
            fields.append(contentsOf: added)
            return
        }
        var merged: [Field] = []
        merged.reserveCapacity(fields.count + added.count)
        var index = 0
        for field in added {
            while index < fields.count, utf8Precedes(fields[index].key, field.key) {
                merged.append(fields[index])
                index += 1
            }
            merged.append(field)
        }
        merged.append(contentsOf: fields[index...])
        fields = merged
    }

    fileprivate mutating func removeObserved(_ observed: Observed) {
        presence.removeAll(where: observed.contains)
        for index in fields.indices { fields[index].slot.removeObserved(observed) }
        fields.removeAll { $0.slot.isEmpty }
    }
}

extension Slot {
    // Split into parts, so that the frame that recurses stays small on a worker's stack.
    mutating func apply(_ edit: SlotEdit, observed: Observed, stamp: Stamp) {
        applyRegister(edit, observed, stamp)
        if edit.map != nil { applyMap(edit, observed, stamp) }
        if !edit.isPlain { applyOthers(edit, observed, stamp) }
    }

    private mutating func applyRegister(_ edit: SlotEdit, _ observed: Observed, _ stamp: Stamp) {
        if edit.clearsRegister { register.remove(observed: observed) }
        if let value = edit.register {
            register.write(Leaves.Leaf(stamp: stamp, value: value), observed: observed)
        }
    }

    private mutating func applyMap(_ edit: SlotEdit, _ observed: Observed, _ stamp: Stamp) {
        guard let below = edit.map else { return }
        if map == nil { map = MapNode() }
        map?.apply(below, observed: observed, stamp: stamp)
        if map?.isEmpty == true { map = nil }
    }

    private mutating func applyOthers(_ edit: SlotEdit, _ observed: Observed, _ stamp: Stamp) {
        if let change = edit.counter {
            var node = counter ?? CounterNode()
            node.apply(change, observed: observed, stamp: stamp)
            counter = node.isEmpty ? nil : node
        }
        if edit.clearsAttachment { attachment.remove(observed: observed) }
        if let token = edit.attachment {
            var tokens = attachment
            tokens.write(Leaves.Leaf(stamp: stamp, value: token), observed: observed)
            attachment = tokens
        }
    }

    /// Removes everything observed except the increments of counters: their removal names the entries it
    /// saw.
    fileprivate mutating func removeObserved(_ observed: Observed) {
        register.remove(observed: observed)
        map?.removeObserved(observed)
        if map?.isEmpty == true { map = nil }
        if !isPlain { removeObservedOthers(observed) }
    }

    private mutating func removeObservedOthers(_ observed: Observed) {
        attachment.remove(observed: observed)
        if var node = counter {
            node.restarts.remove(observed: observed)
            counter = node.isEmpty ? nil : node
        }
    }
}
