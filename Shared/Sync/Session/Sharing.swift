import CRDT
import DQL

/// A query that a session follows, as whoever serves many sessions knows it: equal queries have one number.
/// It is followed for as long as the object lives.
public protocol FollowedQuery: AnyObject, Sendable {
    /// The query's number.
    var number: UInt64 { get }
}

/// What the sessions of one database share, so that a write costs what it matches and not who listens: each
/// distinct query is evaluated once for a change, and what several receivers are sent is encoded once.
///
/// `follow` is called before the first page of a subscription is asked for. Whatever is folded before that is
/// in the page; of whatever is folded later `LiveOperation.Change.matches` knows the query.
public struct Sharing: Sendable {
    let follow: @Sendable (SubscriptionQuery) -> any FollowedQuery
    let encode: @Sendable (_ selection: [UInt64], _ make: () -> [UInt8]) -> [UInt8]

    /// - Parameters:
    ///   - follow: makes a query known, and gives it its number.
    ///   - encode: the bytes of a frame: those that `make` gave for an equal selection, or gives now. A
    ///     selection names the frame's position, its operations, and of each the changes and their forms.
    public init(
        follow: @escaping @Sendable (SubscriptionQuery) -> any FollowedQuery,
        encode: @escaping @Sendable (_ selection: [UInt64], _ make: () -> [UInt8]) -> [UInt8]
    ) {
        self.follow = follow
        self.encode = encode
    }
}

/// Which followed queries a document matched before a change, and which after it: numbers, ascending.
public struct QueryMatches: Sendable, Equatable {
    /// Those it matched before.
    public var before: [UInt64]
    /// Those it matches now.
    public var after: [UInt64]
    /// Those that could not be evaluated: a session that follows one evaluates it itself, and fails as it
    /// would alone.
    public var undecided: [UInt64]

    /// Matches of these queries.
    public init(before: [UInt64] = [], after: [UInt64] = [], undecided: [UInt64] = []) {
        self.before = before
        self.after = after
        self.undecided = undecided
    }

    /// How many numbers it holds.
    public var count: Int { before.count + after.count + undecided.count }

    /// Whether a query matched before and matches after; nil where it has to be asked itself.
    func answer(for number: UInt64) -> (before: Bool, after: Bool)? {
        guard !Self.holds(undecided, number) else { return nil }
        return (Self.holds(before, number), Self.holds(after, number))
    }

    private static func holds(_ numbers: [UInt64], _ number: UInt64) -> Bool {
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < numbers.count && numbers[low] == number
    }
}

/// What names the content of a frame of the live stream, beside the position it ends with.
struct FrameSelection {
    private(set) var words: [UInt64] = []

    /// An operation, and of its changes those that are sent, each in its form. A change's word has its
    /// highest bit set, which no offset has.
    mutating func add(_ offset: Offset, _ changes: [(index: Int, form: UInt64)]) {
        guard !changes.isEmpty else { return }
        words.append(offset.rawValue)
        for change in changes { words.append(1 << 63 | UInt64(change.index) << 2 | change.form) }
    }

    /// With the position.
    func ending(at offset: Offset) -> [UInt64] { words + [offset.rawValue] }
}

extension DocumentUpdate.Content {
    /// Which of the forms of a change it is.
    var form: UInt64 {
        switch self {
        case .state: 0
        case .delta: 1
        case .gone: 2
        }
    }
}
