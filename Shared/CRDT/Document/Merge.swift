// Joining two states (rule 2): what both have stays; what one has stays unless the other's vector covers it,
// because then the other has seen it go.

extension MapNode {
    static func join(
        _ left: MapNode, _ leftVector: VersionVector, _ right: MapNode, _ rightVector: VersionVector
    ) -> MapNode {
        var result = MapNode()
        result.presence = joinStamps(left.presence, leftVector, right.presence, rightVector)
        result.fields.reserveCapacity(max(left.fields.count, right.fields.count))
        var first = left.fields[...]
        var second = right.fields[...]
        while let key = smallerKey(first.first?.key, second.first?.key) {
            let one = first.first.flatMap { utf8Equal($0.key, key) ? $0.slot : nil }
            let two = second.first.flatMap { utf8Equal($0.key, key) ? $0.slot : nil }
            if one != nil { first.removeFirst() }
            if two != nil { second.removeFirst() }
            let slot = Slot.join(one ?? Slot(), leftVector, two ?? Slot(), rightVector)
            if !slot.isEmpty { result.fields.append(Field(key: key, slot: slot)) }
        }
        return result
    }

    private static func smallerKey(_ left: String?, _ right: String?) -> String? {
        guard let left, let right else { return left ?? right }
        return utf8Precedes(right, left) ? right : left
    }

    private static func joinStamps(
        _ left: [Stamp], _ leftVector: VersionVector, _ right: [Stamp], _ rightVector: VersionVector
    ) -> [Stamp] {
        if left == right { return left }
        let kept =
            left.filter { right.contains($0) || !rightVector.covers($0) }
            + right.filter { !left.contains($0) && !leftVector.covers($0) }
        return kept.sorted()
    }
}

extension Slot {
    static func join(_ left: Slot, _ leftVector: VersionVector, _ right: Slot, _ rightVector: VersionVector)
        -> Slot
    {
        var result = Slot()
        result.register = joinLeaves(left.register, leftVector, right.register, rightVector)
        if left.map != nil || right.map != nil {
            let map = MapNode.join(left.map ?? MapNode(), leftVector, right.map ?? MapNode(), rightVector)
            result.map = map.isVisible ? map : nil
        }
        return result
    }

    private static func joinLeaves(
        _ left: [Leaf], _ leftVector: VersionVector, _ right: [Leaf], _ rightVector: VersionVector
    ) -> [Leaf] {
        if left.count == 1, right.count == 1, left[0].stamp == right[0].stamp { return left }
        let rightStamps = right.map(\.stamp)
        let leftStamps = left.map(\.stamp)
        let kept =
            left.filter { rightStamps.contains($0.stamp) || !rightVector.covers($0.stamp) }
            + right.filter { !leftStamps.contains($0.stamp) && !leftVector.covers($0.stamp) }
        return kept.sorted { $0.stamp < $1.stamp }
    }
}
