import CRDT

/// The difference between two results of one query, as an observer shows it. The indexes of `deletions` and
/// the `from` of `moves` refer to the old result, all others to the new one; each list is ascending.
///
/// Two rows are the same document if their `_id` is the same (for rows without one: if the whole row is). A
/// row is updated if anything else in it differs.
public struct RowDifference: Sendable {
    /// New rows.
    public let insertions: [Int]
    /// Rows that were removed.
    public let deletions: [Int]
    /// Rows whose value has changed.
    public let updates: [Int]
    /// Rows whose order has changed: the fewest moves that explain the new order.
    public let moves: [(from: Int, to: Int)]

    /// True if the results are the same.
    public var isEmpty: Bool {
        insertions.isEmpty && deletions.isEmpty && updates.isEmpty && moves.isEmpty
    }

    /// The difference between two results of one query.
    public init(from old: [KeptRow], to new: [KeptRow]) {
        var insertions: [Int] = []
        var updates: [Int] = []
        // Skips rows that stayed in place, at both ends: mostly nearly all.
        let shorter = min(old.count, new.count)
        var head = 0
        while head < shorter {
            let likeness = Likeness(old[head], new[head])
            guard likeness != .other else { break }
            if likeness == .updated { updates.append(head) }
            head += 1
        }
        var tail = 0
        while tail < shorter - head {
            let to = new.count - 1 - tail
            let likeness = Likeness(old[old.count - 1 - tail], new[to])
            guard likeness != .other else { break }
            if likeness == .updated { updates.append(to) }
            tail += 1
        }
        var places = Places(of: old, in: head..<(old.count - tail))
        var kept: [(from: Int, to: Int)] = []
        for index in head..<(new.count - tail) {
            guard let found = places.take(new[index], of: old) else {
                insertions.append(index)
                continue
            }
            kept.append((from: found.place, to: index))
            if found.likeness == .updated { updates.append(index) }
        }
        self.insertions = insertions
        self.updates = updates.sorted()
        deletions = places.left
        moves = Self.moves(among: kept)
    }

    /// The fewest moves that explain the new order: all but a longest increasing subsequence.
    private static func moves(among kept: [(from: Int, to: Int)]) -> [(from: Int, to: Int)] {
        guard zip(kept, kept.dropFirst()).contains(where: { $0.from > $1.from }) else { return [] }
        /// For each length, the position of the smallest last number of a run of that length.
        var ends: [Int] = []
        var before = [Int](repeating: -1, count: kept.count)
        for (position, pair) in kept.enumerated() {
            var low = 0
            var high = ends.count
            while low < high {
                let middle = (low + high) / 2
                if kept[ends[middle]].from < pair.from { low = middle + 1 } else { high = middle }
            }
            if low > 0 { before[position] = ends[low - 1] }
            if low == ends.count { ends.append(position) } else { ends[low] = position }
        }
        var stays = [Bool](repeating: false, count: kept.count)
        var next = ends.last ?? -1
        while next >= 0 {
            stays[next] = true
            next = before[next]
        }
        return kept.indices.filter { !stays[$0] }.map { kept[$0] }
    }
}

/// The relation of two rows. They are the same document if their `_id` (or, without one, the whole row) is
/// the same.
private enum Likeness {
    case other, updated, same

    init(_ old: KeptRow, _ new: KeptRow) {
        // Documents as stored: comparing bytes is enough, and mostly they are equal.
        let found: Likeness?? = old.withDocument { oldID, oldBytes in
            new.withDocument { newID, newBytes in
                guard Self.equal(oldID, newID) else { return .other }
                return Self.equal(oldBytes, newBytes) ? .same : .updated
            }
        }
        switch found {
        case .some(.some(.updated)): self = Self.decoded(old) == Self.decoded(new) ? .same : .updated
        case .some(.some(let likeness)): self = likeness
        default: self.init(Self.decoded(old), Self.decoded(new))
        }
    }

    private init(_ old: Value, _ new: Value) {
        switch (old["_id"], new["_id"]) {
        case (let oldID?, let newID?):
            self = oldID != newID ? .other : old == new ? .same : .updated
        case (nil, nil): self = old == new ? .same : .other
        default: self = .other
        }
    }

    /// A row that cannot be read counts as empty: running the query reports the error.
    private static func decoded(_ row: KeptRow) -> Value { (try? row.value) ?? .object(ObjectValue()) }

    /// Eight bytes at a time: whole documents are compared.
    private static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        var place = 0
        while place + 8 <= left.count {
            let (a, b) = (
                left.loadUnaligned(fromByteOffset: place, as: UInt64.self),
                right.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            )
            guard a == b else { return false }
            place += 8
        }
        while place < left.count {
            guard left[place] == right[place] else { return false }
            place += 1
        }
        return true
    }

    /// A hash that is the same for all rows that are not `other`.
    static func hash(_ row: KeptRow) -> UInt64 {
        if let hash = row.withDocument({ id, _ in hash64(id) }) { return hash }
        let value = decoded(row)
        return value["_id"].map { hash64(CBOR.encode($0)) } ?? hash64(CBOR.encode(value), seed: 2)
    }
}

/// The rows of a part of a list by their identity. Rows of one identity (projections without `_id`) are
/// taken in order.
private struct Places {
    private let range: Range<Int>
    /// The first row of each hash that was not taken yet.
    private var first: [UInt64: Int] = [:]
    /// For each row, the next one of its hash; -1 when there is none.
    private var next: [Int]
    private var isTaken: [Bool]

    init(of rows: [KeptRow], in range: Range<Int>) {
        self.range = range
        next = [Int](repeating: -1, count: range.count)
        isTaken = [Bool](repeating: false, count: range.count)
        first.reserveCapacity(range.count)
        for index in range.reversed() {
            let before = first.updateValue(index, forKey: Likeness.hash(rows[index]))
            next[index - range.lowerBound] = before ?? -1
        }
    }

    /// Takes the first row of this identity that was not taken yet; also returns how it compares.
    mutating func take(_ row: KeptRow, of rows: [KeptRow]) -> (place: Int, likeness: Likeness)? {
        let hash = Likeness.hash(row)
        var index = first[hash] ?? -1
        let isFirst = index
        while index >= 0 {
            let place = index - range.lowerBound
            if !isTaken[place] {
                let likeness = Likeness(rows[index], row)
                if likeness != .other {
                    isTaken[place] = true
                    // Taken rows at the front are not visited again.
                    if index == isFirst { first[hash] = next[place] }
                    return (index, likeness)
                }
            }
            index = next[place]
        }
        return nil
    }

    /// The rows that were not taken.
    var left: [Int] { range.filter { !isTaken[$0 - range.lowerBound] } }
}
