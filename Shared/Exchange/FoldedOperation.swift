import CRDT

/// One folded operation of the shared log, with the data needed for fan-out; all sessions of a server share
/// it.
public struct FoldedOperation: Sendable {
    /// One document's change with the states around it.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// The encoded delta; nil when a full state was merged.
        public let delta: EncodedDelta?
        /// The encoded state before; nil before the first.
        public let before: EncodedState?
        /// The encoded state after; empty for a tombstone that was reaped.
        public let after: EncodedState
        /// The encoded vector at which a tombstone was reaped; nil for any other change.
        public let gone: [UInt8]?
        /// The followed queries affected by the change; nil if each session evaluates its own.
        public var matches: QueryMatches?
        /// The delta's stamp, where one commit of a peer holds changes of several authors; nil for the
        /// operation's.
        public var stamp: Stamp?
        /// At a small peer, the encoded vector of the document's void stamps, if that is news; else nil.
        public var void: [UInt8]?

        /// A change of this document.
        public init(
            key: DocumentKey, delta: EncodedDelta?, before: EncodedState?, after: EncodedState,
            gone: [UInt8]? = nil, matches: QueryMatches? = nil
        ) {
            self.key = key
            self.delta = delta
            self.before = before
            self.after = after
            self.gone = gone
            self.matches = matches
        }
    }

    /// The position in the log after it.
    public let position: LogPosition
    /// Its stamp.
    public let stamp: Stamp
    /// Its sequence; 0 if nobody asks for it.
    public let sequence: SequenceNumber
    /// The session that uploaded it; nil if it entered the log another way.
    public var origin: UInt64?
    /// The changes, in the operation's order; reaped tombstones come last.
    public var changes: [Change]

    /// An operation at this position.
    public init(
        position: LogPosition, stamp: Stamp, sequence: SequenceNumber = 0, origin: UInt64? = nil,
        changes: [Change]
    ) {
        self.position = position
        self.stamp = stamp
        self.sequence = sequence
        self.origin = origin
        self.changes = changes
    }
}

/// The followed queries that a document matched before and after a change: numbers, ascending.
public struct QueryMatches: Sendable, Equatable {
    /// The queries it matched before.
    public var before: [UInt64]
    /// The queries it matches now.
    public var after: [UInt64]
    /// The queries that could not be evaluated: a session that follows one evaluates it itself, and fails
    /// as it would alone.
    public var undecided: [UInt64]

    /// Matches of these queries.
    public init(before: [UInt64] = [], after: [UInt64] = [], undecided: [UInt64] = []) {
        self.before = before
        self.after = after
        self.undecided = undecided
    }

    /// The number of entries.
    public var count: Int { before.count + after.count + undecided.count }

    /// A query's verdicts on the states before and after; nil if the session has to evaluate it.
    public func answer(for number: UInt64) -> (before: Bool, after: Bool)? {
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
