import CRDT

/// The latest commits of a log or a store, in memory for all who follow them: each reads behind its own
/// offset, so a slow one costs nothing. One whose next commit is not kept any more reads the log or the
/// store.
///
/// Invariant: the kept commits are those after `start` through `end`, without a gap.
public struct CommitTail: Sendable {
    /// A commit and the followed queries that it matters to.
    public struct Commit: Sendable {
        /// The commit.
        public let operation: FoldedOperation
        /// The numbers of the queries, ascending; empty where nobody shares queries.
        public let queries: [UInt64]

        /// A commit that matters to these queries.
        public init(_ operation: FoldedOperation, queries: [UInt64] = []) {
            self.operation = operation
            self.queries = queries
        }

        /// About how many bytes it takes in memory: a change has a key, and three arrays with their headers.
        var bytes: Int {
            operation.changes.reduce(64 + 8 * queries.count) {
                $0 + 160 + ($1.delta?.count ?? 0) + ($1.before?.count ?? 0) + $1.after.count
                    + 8 * ($1.matches?.count ?? 0)
            }
        }
    }

    /// Commits for one who follows.
    public struct Batch: Sendable {
        /// The commits that were asked for, in their order.
        public let operations: [FoldedOperation]
        /// The position of the last commit that was looked at; nil at the end of the tail.
        public let through: LogPosition?
    }

    /// The most that is kept. The commits of the last `append` are not counted in bytes.
    public struct Bounds: Sendable {
        let commits: Int
        let bytes: Int

        /// So many commits, of so many bytes.
        public init(commits: Int = .max, bytes: Int) {
            self.commits = commits
            self.bytes = bytes
        }
    }

    private struct Slot {
        let commit: Commit
        let bytes: Int
    }

    private let bounds: Bounds
    /// The commits begin at `first`. Slots before it are empty; they are removed now and then.
    private var slots: [Slot?] = []
    private var first = 0
    private var bytes = 0
    /// The offset behind which all commits are kept.
    public private(set) var start: Offset
    /// The offset of the last commit.
    public private(set) var end: Offset

    /// Keeps nothing yet; the next commit follows this offset.
    public init(after offset: Offset, _ bounds: Bounds) {
        self.bounds = bounds
        (start, end) = (offset, offset)
    }

    /// Drops what is kept; the next commit follows this offset.
    public mutating func restart(after offset: Offset) {
        (slots, first, bytes) = ([], 0, 0)
        (start, end) = (offset, offset)
    }

    /// Drops what is kept.
    public mutating func forget() { restart(after: end) }

    /// Adds commits. If one does not follow the end, those before it are dropped.
    public mutating func append(_ commits: [Commit]) {
        for commit in commits {
            let (offset, size) = (commit.operation.position.offset, commit.bytes)
            if offset != end.next { restart(after: offset.reduced(by: 1)) }
            slots.append(Slot(commit: commit, bytes: size))
            bytes += size
            end = offset
        }
        trim(sparing: commits.count)
    }

    private mutating func trim(sparing fresh: Int) {
        let spared = slots.count - fresh
        while slots.count - first > bounds.commits || (bytes > bounds.bytes && first < spared) {
            bytes -= slots[first]?.bytes ?? 0
            slots[first] = nil
            first += 1
            start = start.next
        }
        // Empty slots are removed when they are the larger part, so each commit is moved once at most.
        if first > slots.count / 2 {
            slots.removeFirst(first)
            first = 0
        }
    }

    /// The next commits after an offset, so many of them at most; the first one always fits. Nil if it is not
    /// kept any more.
    /// - Parameter isWanted: whether a commit is for the one who follows.
    public func batch(
        after offset: Offset, bytes most: Int, commits: Int = .max,
        where isWanted: (Commit) -> Bool = { _ in true }
    ) -> Batch? {
        guard offset < end else { return Batch(operations: [], through: nil) }
        guard offset >= start else { return nil }
        var operations: [FoldedOperation] = []
        var size = 0
        var through: LogPosition?
        for case let slot? in slots[(first + start.distance(to: offset))...] {
            if isWanted(slot.commit) {
                guard operations.isEmpty || (size + slot.bytes <= most && operations.count < commits)
                else { break }
                operations.append(slot.commit.operation)
                size += slot.bytes
            }
            through = slot.commit.operation.position
        }
        return Batch(operations: operations, through: through)
    }
}
