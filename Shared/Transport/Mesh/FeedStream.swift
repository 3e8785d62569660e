import CRDT
import Exchange
import Sync

/// The latest commits of a store, for the links that follow them: each link pulls from its own position, so a
/// stuck one costs nothing but a catch-up from the store.
///
/// Invariants: commits are contiguous; their count and bytes are bounded by `Limits`; each waiter is told
/// once. Waiters to be told are handed out, to be told where no lock is held.
struct FeedStream {
    typealias Tell = @Sendable (Event) -> Void

    private var commits: [FoldedOperation] = []
    private var bytes = 0
    private(set) var head: LogPosition
    private var waiters: [UInt64: Tell] = [:]

    init(head: LogPosition) { self.head = head }

    /// Answers a link that is at an offset, or lets it wait.
    mutating func follow(after offset: Offset, link: UInt64, _ tell: @escaping Tell) -> Event? {
        if let answer = answer(after: offset) { return answer }
        waiters[link] = tell
        return nil
    }

    mutating func leave(_ link: UInt64) { waiters[link] = nil }

    private func answer(after offset: Offset) -> Event? {
        guard offset < head.offset else { return nil }
        guard let first = commits.first?.position.offset, first <= offset.next else { return .lagging(head) }
        var batch: [FoldedOperation] = []
        var size = 0
        for commit in commits[first.distance(to: offset.next)...] {
            guard batch.isEmpty || size < Limits.feedBatchBytes else { break }
            batch.append(commit)
            size += commit.size
        }
        guard let last = batch.last else { return nil }
        return .operations(batch, through: last.position)
    }

    /// A commit was made; `recorded` is nil where its changes are not at hand.
    /// - Returns: the links that waited, and their answers.
    mutating func append(_ recorded: FoldedOperation?, at position: LogPosition) -> [(Tell, Event)] {
        guard head.offset < position.offset else { return [] }
        if let recorded, head.offset.next == position.offset || commits.isEmpty {
            commits.append(recorded)
            bytes += recorded.size
        } else {
            commits = []
            bytes = 0
        }
        while commits.count > Limits.feedCommits || bytes > Limits.feedBytes && commits.count > 1 {
            bytes -= commits.removeFirst().size
        }
        let before = head.offset
        head = position
        defer { waiters = [:] }
        guard let answer = answer(after: before) else { return [] }
        return waiters.values.map { ($0, answer) }
    }
}

extension FoldedOperation {
    /// About how many bytes it takes in memory.
    fileprivate var size: Int {
        changes.reduce(64) { $0 + 160 + $1.after.count + ($1.before?.count ?? 0) + ($1.delta?.count ?? 0) }
    }
}
