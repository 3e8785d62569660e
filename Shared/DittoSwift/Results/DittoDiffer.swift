import CRDT
import DQL
import Foundation
import Synchronization

/// Compares the items of a result with those of the previous one.
///
/// Two items are the same document if their `_id` is the same (for rows without one: if the whole row is).
/// An item is updated if anything else in it differs. Keeps the rows of the last call, like the items
/// themselves.
public final class DittoDiffer: Sendable {
    private let previous = Mutex<[KeptRow]>([])

    /// A differ without a previous result: its first diff has only insertions.
    public init() {}

    /// The difference between the items of the last call and these.
    public func diff(_ items: [DittoQueryResultItem]) -> DittoDiff {
        let rows = items.map(\.kept)
        let before = previous.withLock { previous in
            defer { previous = rows }
            return previous
        }
        return DittoDiff(from: before, to: rows)
    }
}

/// The difference between two lists of items. The indexes of `deletions` and the `from` of `moves` refer to
/// the old list, all others to the new one.
public struct DittoDiff: Equatable, Decodable, Sendable {
    /// New items.
    public let insertions: IndexSet
    /// Items that were removed.
    public let deletions: IndexSet
    /// Items whose value has changed.
    public let updates: IndexSet
    /// Items whose order has changed: the fewest moves that explain the new order.
    public let moves: [(from: Int, to: Int)]

    private enum CodingKeys: String, CodingKey {
        case insertions, deletions, updates, moves
    }

    /// Decodes `{"insertions": [0], "deletions": [], "updates": [1], "moves": [[2, 3]]}`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        insertions = IndexSet(try members.decode([Int].self, forKey: .insertions))
        deletions = IndexSet(try members.decode([Int].self, forKey: .deletions))
        updates = IndexSet(try members.decode([Int].self, forKey: .updates))
        moves = try members.decode([[Int]].self, forKey: .moves).map { pair in
            guard pair.count == 2 else {
                throw DecodingError.dataCorruptedError(
                    forKey: .moves, in: members, debugDescription: "a move must be a pair of indexes")
            }
            return (from: pair[0], to: pair[1])
        }
    }

    /// Same indexes and moves.
    public static func == (left: DittoDiff, right: DittoDiff) -> Bool {
        left.insertions == right.insertions && left.deletions == right.deletions
            && left.updates == right.updates
            && left.moves.elementsEqual(right.moves) { $0 == $1 }
    }

    init(from old: [KeptRow], to new: [KeptRow]) {
        var insertions = IndexSet()
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
                insertions.insert(index)
                continue
            }
            kept.append((from: found.place, to: index))
            if found.likeness == .updated { updates.append(index) }
        }
        self.insertions = insertions
        self.updates = IndexSet(updates)
        deletions = IndexSet(places.left)
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
        case .some(.some(.updated)): self = old.decoded == new.decoded ? .same : .updated
        case .some(.some(let likeness)): self = likeness
        default: self.init(old.decoded, new.decoded)
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

    private static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count, let first = left.baseAddress, let second = right.baseAddress else {
            return left.count == right.count
        }
        return memcmp(first, second, left.count) == 0
    }

    /// A hash that is the same for all rows that are not `other`.
    static func hash(_ row: KeptRow) -> UInt64 {
        if let hash = row.withDocument({ id, _ in hash64(id) }) { return hash }
        let value = row.decoded
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
