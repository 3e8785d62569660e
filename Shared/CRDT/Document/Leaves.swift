/// The surviving writes of one REGISTER or ATTACHMENT, or the surviving RESTARTs of a COUNTER: the writes
/// that no later write has observed and replaced (rule 2), ascending by stamp. The last one shows; the
/// others are its concurrent losers.
///
/// Nearly every field has exactly one, so a single write is kept without an array.
struct Leaves: Sendable {
    /// One write.
    struct Leaf: Sendable, Equatable {
        let stamp: Stamp
        let value: Value
    }

    private enum Storage: Sendable {
        case none
        case one(Leaf)
        /// Two or more.
        case many([Leaf])
    }

    private var storage = Storage.none

    init() {}

    init(_ leaf: Leaf) { storage = .one(leaf) }

    /// From leaves that ascend by stamp.
    init(ascending leaves: [Leaf]) {
        switch leaves.count {
        case 0: storage = .none
        case 1: storage = .one(leaves[0])
        default: storage = .many(leaves)
        }
    }

    /// The write with the greatest stamp: the one that shows.
    var last: Leaf? {
        switch storage {
        case .none: nil
        case .one(let leaf): leaf
        case .many(let leaves): leaves.last
        }
    }

    /// The greatest stamp.
    var newest: Stamp? {
        switch storage {
        case .none: nil
        case .one(let leaf): leaf.stamp
        case .many(let leaves): leaves.last?.stamp
        }
    }

    /// Appends the stamps to a list, except one that equals its last stamp: neighbours mostly share theirs.
    func appendStamps(to stamps: inout [Stamp]) {
        switch storage {
        case .none: break
        case .one(let leaf): if stamps.last != leaf.stamp { stamps.append(leaf.stamp) }
        case .many(let leaves): for leaf in leaves { stamps.append(leaf.stamp) }
        }
    }

    /// Replaces the observed writes by this one.
    mutating func write(_ leaf: Leaf, observed: Observed) {
        switch storage {
        case .none: storage = .one(leaf)
        case .one(let old) where observed.contains(old.stamp): storage = .one(leaf)
        case .one(let old): storage = .many(old.stamp <= leaf.stamp ? [old, leaf] : [leaf, old])
        case .many(let leaves):
            var kept: [Leaf] = []
            kept.reserveCapacity(leaves.count + 1)
            for other in leaves where !observed.contains(other.stamp) { kept.append(other) }
            kept.insert(leaf, at: kept.firstIndex { leaf.stamp < $0.stamp } ?? kept.endIndex)
            self = Leaves(ascending: kept)
        }
    }

    /// Removes the observed writes.
    mutating func remove(observed: Observed) {
        switch storage {
        case .none: break
        case .one(let old): if observed.contains(old.stamp) { storage = .none }
        case .many(let leaves):
            self = Leaves(ascending: leaves.filter { !observed.contains($0.stamp) })
        }
    }

    /// The join: a write stays when both sides have it, or when the other side's vector does not cover it.
    static func join(
        _ left: Leaves, _ leftVector: VersionVector, _ right: Leaves, _ rightVector: VersionVector
    ) -> Leaves {
        if case .one(let one) = left.storage, case .one(let other) = right.storage, one.stamp == other.stamp {
            return greater(one, other)
        }
        if right.isEmpty { return left.unseen(by: rightVector) }
        if left.isEmpty { return right.unseen(by: leftVector) }
        if case .one(let one) = left.storage, case .one(let other) = right.storage {
            if rightVector.covers(one.stamp) { return right.unseen(by: leftVector) }
            if leftVector.covers(other.stamp) { return left }
            return Leaves(ascending: one.stamp < other.stamp ? [one, other] : [other, one])
        }
        var kept: [Leaf] = []
        // One walk, since both ascend. A search per leaf would be quadratic in data that a stranger sends.
        var place = 0
        for leaf in left {
            while place < right.count, right[place].stamp < leaf.stamp {
                if !leftVector.covers(right[place].stamp) { kept.append(right[place]) }
                place += 1
            }
            if place < right.count, right[place].stamp == leaf.stamp {
                kept.append(greater(leaf, right[place]).last ?? leaf)
                place += 1
            } else if !rightVector.covers(leaf.stamp) {
                kept.append(leaf)
            }
        }
        for leaf in right[place...] where !leftVector.covers(leaf.stamp) { kept.append(leaf) }
        return Leaves(ascending: kept)
    }

    private func unseen(by vector: VersionVector) -> Leaves {
        switch storage {
        case .none: self
        case .one(let leaf): vector.covers(leaf.stamp) ? Leaves() : self
        case .many(let leaves): Leaves(ascending: leaves.filter { !vector.covers($0.stamp) })
        }
    }

    /// One stamp has one content (invariant 2). If a dishonest writer made two, every replica keeps the same
    /// one.
    private static func greater(_ one: Leaf, _ other: Leaf) -> Leaves {
        if one.value == other.value { return Leaves(one) }
        func bytes(_ leaf: Leaf) -> [UInt8] {
            var writer = ByteWriter()
            writer.value(leaf.value)
            return writer.bytes
        }
        return Leaves(compareBytes(bytes(one), bytes(other)) < 0 ? other : one)
    }
}

extension Leaves: RandomAccessCollection {
    var startIndex: Int { 0 }

    var endIndex: Int {
        switch storage {
        case .none: 0
        case .one: 1
        case .many(let leaves): leaves.count
        }
    }

    subscript(position: Int) -> Leaf {
        switch storage {
        case .none: preconditionFailure("there is no leaf")
        case .one(let leaf):
            precondition(position == 0, "there is one leaf")
            return leaf
        case .many(let leaves): return leaves[position]
        }
    }
}

extension Leaves: Equatable {
    static func == (left: Leaves, right: Leaves) -> Bool { left.elementsEqual(right) }
}
