import CRDT
import Foundation
import Synchronization

/// Compares the items of one result with those of the one before.
///
/// Items are the same document where their `_id` is (rows without one: where the whole row is), and updated
/// where anything in them differs. Keeps the rows it was last given.
public final class DittoDiffer: Sendable {
    private let previous = Mutex<[Value]>([])

    /// A differ that has seen nothing: its first diff has insertions only.
    public init() {}

    /// The difference between the items given last and these.
    public func diff(_ items: [DittoQueryResultItem]) -> DittoDiff {
        let rows = items.map(\.row)
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

    init(from old: [Value], to new: [Value]) {
        var places: [[UInt8]: [Int]] = [:]
        for (index, row) in old.enumerated().reversed() {
            places[Self.identity(of: row), default: []].append(index)
        }
        var insertions = IndexSet()
        var updates = IndexSet()
        var kept: [(from: Int, to: Int)] = []
        for (index, row) in new.enumerated() {
            // Rows of one identity (projections without `_id`) are paired in order.
            guard let from = places[Self.identity(of: row)]?.popLast() else {
                insertions.insert(index)
                continue
            }
            kept.append((from: from, to: index))
            if old[from] != row { updates.insert(index) }
        }
        self.insertions = insertions
        self.updates = updates
        deletions = IndexSet(places.values.joined())
        let staying = Self.longestIncreasingRun(kept.map(\.from))
        moves = kept.indices.filter { !staying.contains($0) }.map { kept[$0] }
    }

    private static func identity(of row: Value) -> [UInt8] { CBOR.encode(row["_id"] ?? row) }

    /// The positions of a longest increasing subsequence: what may stay where it is.
    private static func longestIncreasingRun(_ numbers: [Int]) -> Set<Int> {
        /// For each length the position of the smallest last number of a run that long.
        var ends: [Int] = []
        var before = [Int?](repeating: nil, count: numbers.count)
        for (position, number) in numbers.enumerated() {
            var low = 0
            var high = ends.count
            while low < high {
                let middle = (low + high) / 2
                if numbers[ends[middle]] < number { low = middle + 1 } else { high = middle }
            }
            before[position] = low > 0 ? ends[low - 1] : nil
            if low == ends.count { ends.append(position) } else { ends[low] = position }
        }
        var run: Set<Int> = []
        var next = ends.last
        while let position = next {
            run.insert(position)
            next = before[position]
        }
        return run
    }
}
