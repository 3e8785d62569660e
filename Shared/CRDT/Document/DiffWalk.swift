/// Walks two trees side by side and notes where a reader could tell them apart.
struct DiffWalk {
    private(set) var changes: [DocumentDiff.Change] = []
    private var path: [String] = []

    mutating func root(_ before: MapNode, _ after: MapNode) {
        compare(.map, before.view(isShown: true), after.view(isShown: true))
        fields(before, after)
    }

    private mutating func fields(_ before: MapNode?, _ after: MapNode?) {
        var first = before?.fields[...] ?? []
        var second = after?.fields[...] ?? []
        while let key = Self.smallerKey(first.first?.key, second.first?.key) {
            let one = first.first.flatMap { utf8Equal($0.key, key) ? $0.slot : nil }
            let two = second.first.flatMap { utf8Equal($0.key, key) ? $0.slot : nil }
            if one != nil { first.removeFirst() }
            if two != nil { second.removeFirst() }
            path.append(key)
            slots(one, two)
            path.removeLast()
        }
    }

    private mutating func slots(_ before: Slot?, _ after: Slot?) {
        for kind in FieldKind.allCases where kind != .map {
            compare(kind, before?.view(kind), after?.view(kind))
        }
        compare(.map, before?.view(.map), after?.view(.map))
        if before?.map != nil || after?.map != nil { fields(before?.map, after?.map) }
    }

    private mutating func compare(_ kind: FieldKind, _ before: DiffView?, _ after: DiffView?) {
        guard before?.side != after?.side else { return }
        changes.append(
            DocumentDiff.Change(
                path: path, kind: kind, before: before?.side, after: after?.side,
                writers: after?.writers(since: before) ?? []))
    }

    private static func smallerKey(_ left: String?, _ right: String?) -> String? {
        guard let left, let right else { return left ?? right }
        return utf8Precedes(right, left) ? right : left
    }
}

/// One kind as a reader sees it, and the stamps that keep it there.
private struct DiffView {
    let side: DocumentDiff.Side
    let stamps: [Stamp]
    /// A MAP's node: the writes below it also keep it there.
    let below: MapNode?

    /// The new stamps since `before`. A map whose presence nobody wrote is owed to the writes below it.
    func writers(since before: DiffView?) -> [Stamp] {
        let own = Set(stamps).subtracting(before?.stamps ?? [])
        guard own.isEmpty, let below else { return own.sorted() }
        return below.survivingStamps().subtracting(before?.below?.survivingStamps() ?? []).sorted()
    }
}

extension MapNode {
    fileprivate func view(isShown: Bool) -> DiffView? {
        guard isVisible else { return nil }
        let side = DocumentDiff.Side(value: .object(ObjectValue()), conflicts: [], isShown: isShown)
        return DiffView(side: side, stamps: presence, below: self)
    }

    /// Every stamp that keeps something in this map, its presence included.
    fileprivate func survivingStamps() -> Set<Stamp> {
        var stamps = Set(presence)
        for field in fields {
            stamps.formUnion(field.slot.register.map { $0.stamp })
            stamps.formUnion(field.slot.attachment.map { $0.stamp })
            stamps.formUnion(field.slot.counter?.survivingStamps ?? [])
            stamps.formUnion(field.slot.map?.survivingStamps() ?? [])
        }
        return stamps
    }
}

extension CounterNode {
    fileprivate var survivingStamps: [Stamp] {
        restarts.map { $0.stamp } + entries.filter { $0.survives }.map { $0.stamp }
    }
}

extension Slot {
    fileprivate func view(_ kind: FieldKind) -> DiffView? {
        let isShown = newestKind == kind
        switch kind {
        case .register: return Self.view(register, isShown: isShown)
        case .map: return map?.view(isShown: isShown)
        case .counter:
            guard let counter, counter.isVisible else { return nil }
            let side = DocumentDiff.Side(value: counter.value, conflicts: [], isShown: isShown)
            return DiffView(side: side, stamps: counter.survivingStamps, below: nil)
        case .attachment: return Self.view(attachment, isShown: isShown)
        }
    }

    private static func view(_ leaves: Leaves, isShown: Bool) -> DiffView? {
        guard let newest = leaves.last else { return nil }
        let losers = leaves.dropLast().reversed().map { $0.value }
        let side = DocumentDiff.Side(value: newest.value, conflicts: losers, isShown: isShown)
        return DiffView(side: side, stamps: leaves.map { $0.stamp }, below: nil)
    }
}
