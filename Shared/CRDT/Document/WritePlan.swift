/// How a value becomes variants: which objects turn into MAPs and which stay REGISTERs.
struct WritePlan {
    /// Strict mode: an undeclared object is one REGISTER.
    let objectsAreRegisters: Bool
    /// The transaction's stamp.
    let stamp: Stamp

    func check(_ value: Value, _ declared: TypeDeclaration?, depth: Int) throws(CRDTError) {
        guard depth <= Limits.nestingDepth else { throw .tooDeep }
        if let kind = declared?.kind, kind == .counter || kind == .attachment {
            throw CRDTError(.unsupportedKind, "fields of type \(kind) cannot be written yet")
        }
        if declared?.kind == .map, value.objectValue == nil {
            throw CRDTError(.unsupportedKind, "a field declared as MAP takes an object")
        }
        switch value {
        case .object(let object):
            for entry in object.entries { try check(entry.value, declared?[entry.key], depth: depth + 1) }
        case .array(let elements):
            for element in elements { try check(element, nil, depth: depth + 1) }
        default: break
        }
    }

    func write(
        _ path: ArraySlice<String>, _ value: Value, _ declared: TypeDeclaration?, into edit: inout MapEdit,
        seeing node: MapNode?
    ) {
        let key = path[path.startIndex]
        let rest = path.dropFirst()
        let existing = node?[key]
        edit.withSlot(key) { slot in
            guard rest.isEmpty else {
                var below = slot.map ?? MapEdit()
                if existing?.map == nil { below.writesPresence = true }
                write(rest, value, declared, into: &below, seeing: existing?.map)
                slot.map = below
                return
            }
            put(value, declared, into: &slot, seeing: existing)
        }
    }

    private func put(
        _ value: Value, _ declared: TypeDeclaration?, into slot: inout SlotEdit, seeing existing: Slot?
    ) {
        let becomesMap = declared.map { $0.kind == .map } ?? !objectsAreRegisters
        guard becomesMap, case .object(let object) = value else {
            slot.register = value
            // A map written earlier in this transaction has the same stamp and would win the tie.
            if existing?.map?.maxStamp == stamp { slot.map = MapEdit(clears: true) }
            return
        }
        var below = slot.map ?? MapEdit()
        // Writing below an existing map leaves its presence alone; an empty object has nothing else to write.
        if existing?.map == nil || object.isEmpty { below.writesPresence = true }
        for entry in object.entries {
            below.withSlot(entry.key) { child in
                put(entry.value, declared?[entry.key], into: &child, seeing: existing?.map?[entry.key])
            }
        }
        slot.map = below
    }
}
