// Joining two states (rule 2): an entry stays when both states have it, or when the other's vector does not
// cover it. If the vector covers it, the other has seen it go.

extension MapNode {
    static func join(
        _ left: MapNode, _ leftVector: VersionVector, _ right: MapNode, _ rightVector: VersionVector
    ) -> MapNode {
        var result = MapNode()
        result.presence = joinStamps(left.presence, leftVector, right.presence, rightVector)
        result.fields.reserveCapacity(max(left.fields.count, right.fields.count))
        var first = 0
        var second = 0
        while first < left.fields.count || second < right.fields.count {
            let order =
                first == left.fields.count
                ? 1
                : second == right.fields.count
                    ? -1 : compareUTF8(left.fields[first].key, right.fields[second].key)
            let slot = Slot.join(
                order <= 0 ? left.fields[first].slot : Slot(), leftVector,
                order >= 0 ? right.fields[second].slot : Slot(), rightVector)
            if !slot.isEmpty {
                let key = order <= 0 ? left.fields[first].key : right.fields[second].key
                result.fields.append(Field(key: key, slot: slot))
            }
            if order <= 0 { first += 1 }
            if order >= 0 { second += 1 }
        }
        return result
    }

    private static func joinStamps(
        _ left: [Stamp], _ leftVector: VersionVector, _ right: [Stamp], _ rightVector: VersionVector
    ) -> [Stamp] {
        if left == right { return left }
        var kept: [Stamp] = []
        // One walk, since both ascend.
        var place = 0
        for stamp in left {
            while place < right.count, right[place] < stamp {
                if !leftVector.covers(right[place]) { kept.append(right[place]) }
                place += 1
            }
            let isShared = place < right.count && right[place] == stamp
            if isShared { place += 1 }
            if isShared || !rightVector.covers(stamp) { kept.append(stamp) }
        }
        for stamp in right[place...] where !leftVector.covers(stamp) { kept.append(stamp) }
        return kept
    }
}

extension Slot {
    static func join(_ left: Slot, _ leftVector: VersionVector, _ right: Slot, _ rightVector: VersionVector)
        -> Slot
    {
        var result = Slot()
        result.register = Leaves.join(left.register, leftVector, right.register, rightVector)
        if left.map != nil || right.map != nil {
            let map = MapNode.join(left.map ?? MapNode(), leftVector, right.map ?? MapNode(), rightVector)
            result.map = map.isEmpty ? nil : map
        }
        if !left.isPlain || !right.isPlain { result.joinOthers(left, leftVector, right, rightVector) }
        return result
    }

    private mutating func joinOthers(
        _ left: Slot, _ leftVector: VersionVector, _ right: Slot, _ rightVector: VersionVector
    ) {
        attachment = Leaves.join(left.attachment, leftVector, right.attachment, rightVector)
        if left.counter != nil || right.counter != nil {
            let joined = CounterNode.join(
                left.counter ?? CounterNode(), leftVector, right.counter ?? CounterNode(), rightVector)
            counter = joined.isEmpty ? nil : joined
        }
    }
}
