import CRDT
import DQL
import Foundation
import Synchronization

/// Compares the items of one result with those of the one before.
///
/// Items are the same document where their `_id` is (rows without one: where the whole row is), and updated
/// where anything in them differs. Keeps the rows it was last given, as the items do.
public final class DittoDiffer: Sendable {
    private let previous = Mutex<[KeptRow]>([])

    /// A differ that has seen nothing: its first diff has insertions only.
    public init() {}

    /// The difference between the items given last and these.
    public func diff(_ items: [DittoQueryResultItem]) -> DittoDiff {
        let rows = items.map(\.kept)
        let before = previous.withLock { previous in
            defer { previous = rows }
            return previous
        }
        return DittoDiff(from: before, to: rows)
    }
}

/// The difference between two lists of items. Indexes of `deletions` and the first ones of `moves` are of
/// the old list, all others of the new one.
public struct DittoDiff: Equatable, Decodable, Sendable {
    /// New items.
    public let insertions: IndexSet
    /// Items that are gone.
    public let deletions: IndexSet
    /// Items that were there with another value.
    public let updates: IndexSet
    /// Items that stand in another order than before: the fewest that explain the new order.
    public let moves: [(from: Int, to: Int)]

    private enum CodingKeys: String, CodingKey {
        case insertions, deletions, updates, moves
    }

    /// Reads `{"insertions": [0], "deletions": [], "updates": [1], "moves": [[2, 3]]}`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        insertions = IndexSet(try members.decode([Int].self, forKey: .insertions))
        deletions = IndexSet(try members.decode([Int].self, forKey: .deletions))
        updates = IndexSet(try members.decode([Int].self, forKey: .updates))
        moves = try members.decode([[Int]].self, forKey: .moves).map { pair in
            guard pair.count == 2 else {
                throw DecodingError.dataCorruptedError(
                    forKey: .moves, in: members, debugDescription: "a move is a pair of indexes")
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
        // What stands where it stood, at both ends: mostly everything.
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

    /// The fewest that explain the new order: all but a longest increasing subsequence.
    private static func moves(among kept: [(from: Int, to: Int)]) -> [(from: Int, to: Int)] {
        guard zip(kept, kept.dropFirst()).contains(where: { $0.from > $1.from }) else { return [] }
        /// For each length the position of the smallest last number of a run that long.
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

/// How two rows relate: the same document where their `_id` is the same; the whole row where there is none.
private enum Likeness {
    case other, updated, same

    init(_ old: KeptRow, _ new: KeptRow) {
        // Documents as they are stored: the bytes tell, and mostly they are the same.
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

    /// The same for rows that are not `other`.
    static func hash(_ row: KeptRow) -> UInt64 {
        if let hash = row.withDocument({ id, _ in hash64(id) }) { return hash }
        let value = row.decoded
        return value["_id"].map { hash64(CBOR.encode($0)) } ?? hash64(CBOR.encode(value), seed: 2)
    }
}

/// The rows of a part of a list by their identity. Rows of one identity (projections without `_id`) are taken
/// in order.
private struct Places {
    private let range: Range<Int>
    /// The first row of each hash that was not taken.
    private var first: [UInt64: Int] = [:]
    /// For each row the next one of its hash; -1 where there is none.
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

    /// The first row of this identity that was not taken before, and whether it says the same.
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
                    // Taken rows at the front are not looked at again.
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
