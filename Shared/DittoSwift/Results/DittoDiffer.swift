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
        let difference = RowDifference(from: old, to: new)
        insertions = IndexSet(difference.insertions)
        deletions = IndexSet(difference.deletions)
        updates = IndexSet(difference.updates)
        moves = difference.moves
    }
}
