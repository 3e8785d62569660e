/// How a value becomes variants: which objects become MAPs or ATTACHMENTs, and which stay REGISTERs.
struct WritePlan {
    /// Strict mode: an undeclared object is one REGISTER.
    let objectsAreRegisters: Bool
    /// The transaction's stamp.
    let stamp: Stamp

    /// The slot under a key as the transaction sees it, and the transaction's edits of it so far.
    struct Seen {
        var slot: Slot?
        var pending: SlotEdit?
    }

    /// A map as the transaction sees it, and the transaction's edits of it so far.
    struct SeenMap {
        var node: MapNode?
        var pending: MapEdit?

        subscript(key: String) -> Seen { Seen(slot: node?[key], pending: pending?[key]) }
    }

    // MARK: Values

    func check(_ value: Value, _ declared: TypeDeclaration?, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        switch kind(of: value, declared) {
        case .map where value.objectValue == nil:
            throw CRDTError(.unsupportedKind, "a field declared as MAP takes an object")
        case .counter where !CounterSum.isNumber(value):
            throw CRDTError(.unsupportedKind, "a field declared as COUNTER takes a finite number")
        case .attachment:
            guard AttachmentToken(value) != nil else {
                throw CRDTError(
                    .unsupportedKind, "a field declared as ATTACHMENT takes a token {id, len, metadata}")
            }
            // Its metadata is one level below the token.
            guard depth + 2 <= Limits.nestingDepth else { throw .tooDeep }
            return
        default: break
        }
        switch value {
        case .object(let object):
            for entry in object.entries { try check(entry.value, declared?[entry.key], depth: depth + 1) }
        case .array(let elements):
            for element in elements { try checkDepth(element, depth: depth + 1) }
        default: break
        }
    }

    private func checkDepth(_ value: Value, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        switch value {
        case .object(let object):
            for entry in object.entries { try checkDepth(entry.value, depth: depth + 1) }
        case .array(let elements):
            for element in elements { try checkDepth(element, depth: depth + 1) }
        default: break
        }
    }

    private func kind(of value: Value, _ declared: TypeDeclaration?) -> FieldKind {
        if let declared { return declared.kind }
        guard !objectsAreRegisters, case .object(let object) = value else { return .register }
        return AttachmentToken.isMarked(object) ? .attachment : .map
    }

    func put(_ value: Value, _ declared: TypeDeclaration?, into slot: inout SlotEdit, seeing seen: Seen) {
        let kind = kind(of: value, declared)
        switch kind {
        case .register: slot.register = value
        case .map:
            guard case .object(let object) = value else { preconditionFailure("an unchecked value") }
            slot.map = map(object, declared, seeing: seen)
        case .counter: slot.counter = restart(with: value, seeing: seen)
        case .attachment:
            guard let token = AttachmentToken(value) else { preconditionFailure("an unchecked value") }
            slot.attachment = token.value
        }
        uncover(kind, in: &slot, seeing: seen)
    }

    func map(_ object: ObjectValue, _ declared: TypeDeclaration?, seeing seen: Seen) -> MapEdit {
        var edit = MapEdit()
        // Writing below an existing map leaves its presence alone; an empty object has nothing else to
        // write.
        edit.writesPresence = object.isEmpty || seen.slot?.map?.isVisible != true
        let below = SeenMap(node: seen.slot?.map, pending: seen.pending?.map)
        for entry in object.sorted {
            edit.withSlot(entry.key) { child in
                put(entry.value, declared?[entry.key], into: &child, seeing: below[entry.key])
            }
        }
        return edit
    }

    // MARK: Paths

    /// Adds to `edit` the edit that applies `body` to the slot at the end of a path. Creates the maps on the
    /// way.
    func descend(
        _ path: ArraySlice<String>, into edit: inout MapEdit, seeing map: SeenMap,
        _ body: (inout SlotEdit, Seen) -> Void
    ) {
        let key = path[path.startIndex]
        let rest = path.dropFirst()
        let seen = map[key]
        edit.withSlot(key) { slot in
            guard !rest.isEmpty else { return body(&slot, seen) }
            var below = MapEdit(writesPresence: seen.slot?.map?.isVisible != true)
            let inside = SeenMap(node: seen.slot?.map, pending: seen.pending?.map)
            descend(rest, into: &below, seeing: inside, body)
            slot.map = below
            uncover(.map, in: &slot, seeing: seen)
        }
    }

    // MARK: Counters

    func increment(by amount: Value, seeing seen: Seen) -> CounterEdit {
        var edit = seen.pending?.counter ?? CounterEdit()
        edit.before = before(seen)
        edit.amount = CounterSum.total(edit.amount ?? .int(0), plus: amount)
        edit.beginsSum = beginsSum(edit, seeing: seen)
        return edit
    }

    /// Returns whether an increment begins a new sum. Integers go on with the old one: their differences are
    /// exact.
    private func beginsSum(_ edit: CounterEdit, seeing seen: Seen) -> Bool {
        guard let point = edit.before?.point, let entry = seen.slot?.counter?[stamp.actor],
            entry.baseline?.time == point.time
        else { return false }
        return edit.amount.map { !CounterSum.areIntegers(point.total, $0) } ?? false
    }

    func restart(with value: Value, seeing seen: Seen) -> CounterEdit {
        var edit = removal(ofCounter: seen, clearsRestarts: false)
        edit.restart = value
        return edit
    }

    /// The removal of a counter as the transaction saw it: it takes back the transaction's own increments
    /// and names everybody's earlier ones as baselines.
    private func removal(ofCounter seen: Seen, clearsRestarts: Bool) -> CounterEdit {
        let before = before(seen)
        let more = seen.slot?.counter?.observed(by: stamp.actor, before: before) ?? []
        let known = seen.pending?.counter?.baselines ?? []
        let baselines = (known + more.filter { new in !known.contains { $0.actor == new.actor } })
            .sorted { $0.actor < $1.actor }
        return CounterEdit(baselines: baselines, clearsRestarts: clearsRestarts, before: before)
    }

    /// The entry from which this transaction's increments of a counter count.
    private func before(_ seen: Seen) -> CounterEdit.Before {
        if let pending = seen.pending?.counter, pending.amount != nil, let before = pending.before {
            return before
        }
        return CounterEdit.Before(point: seen.slot?.counter?[stamp.actor]?.point)
    }

    // MARK: Removals

    /// Removes one kind, or every kind, under a key.
    func unset(_ kind: FieldKind?, in slot: inout SlotEdit, seeing seen: Seen) {
        guard let existing = seen.slot else { return }
        if kind == nil || kind == .register, !existing.register.isEmpty { slot.clearsRegister = true }
        if kind == nil || kind == .map, existing.map?.isVisible == true {
            slot.map = removal(of: SeenMap(node: existing.map, pending: seen.pending?.map))
        }
        if kind == nil || kind == .counter, existing.counter?.isVisible == true {
            slot.counter = removal(ofCounter: seen, clearsRestarts: true)
        }
        if kind == nil || kind == .attachment, !existing.attachment.isEmpty { slot.clearsAttachment = true }
    }

    /// The removal of a map with everything in it. Leaves are removed by their stamps; counters must be
    /// named.
    func removal(of map: SeenMap) -> MapEdit {
        MapEdit(clears: true, fields: baselines(in: map))
    }

    private func baselines(in map: SeenMap) -> [MapEdit.FieldEdit] {
        guard let node = map.node else { return [] }
        return node.fields.compactMap { field in
            guard field.slot.counter != nil || field.slot.map != nil else { return nil }
            let seen = Seen(slot: field.slot, pending: map.pending?[field.key])
            var slot = SlotEdit()
            if field.slot.counter != nil {
                // Taking back this transaction's own increments is an edit, though an empty one for others.
                let takesBack = seen.pending?.counter?.amount != nil
                let edit = removal(ofCounter: seen, clearsRestarts: takesBack)
                if !edit.isEmpty { slot.counter = edit }
            }
            let below = baselines(in: SeenMap(node: field.slot.map, pending: seen.pending?.map))
            if !below.isEmpty { slot.map = MapEdit(fields: below) }
            return slot.isEmpty ? nil : MapEdit.FieldEdit(key: field.key, slot: slot)
        }
    }

    /// Within one transaction all writes have one stamp, and the later kind wins a tie. So a write of an
    /// earlier kind clears the transaction's own write of a later kind; otherwise that one would still show.
    func uncover(_ kind: FieldKind, in slot: inout SlotEdit, seeing seen: Seen) {
        guard let existing = seen.slot else { return }
        for later in FieldKind.allCases where later.rawValue > kind.rawValue {
            if existing.maxStamp(of: later) == stamp { unset(later, in: &slot, seeing: seen) }
        }
    }
}
