import CRDT
import Exchange
import Sync

/// The latest commits of a store, for the links that follow them: each link pulls from its own position, so a
/// stuck one costs nothing but a catch-up from the store.
///
/// Invariant: each waiter is told once. Waiters to be told are handed out, to be told where no lock is held.
struct FeedStream {
    typealias Tell = @Sendable (Event) -> Void

    private var tail: CommitTail
    private(set) var head: LogPosition
    private var waiters: [UInt64: Tell] = [:]

    init(head: LogPosition) {
        self.head = head
        tail = CommitTail(
            after: head.offset, .init(commits: Limits.feedCommits, bytes: Limits.feedBytes))
    }

    /// Answers a link that is at an offset, or lets it wait.
    mutating func follow(after offset: Offset, link: UInt64, _ tell: @escaping Tell) -> Event? {
        if let answer = answer(after: offset) { return answer }
        waiters[link] = tell
        return nil
    }

    mutating func leave(_ link: UInt64) { waiters[link] = nil }

    private func answer(after offset: Offset) -> Event? {
        guard offset < head.offset else { return nil }
        guard let batch = tail.batch(after: offset, bytes: Limits.feedBatchBytes) else {
            return .lagging(head)
        }
        return batch.through.map { .operations(batch.operations, through: $0) }
    }

    /// A commit was made; `recorded` is nil where its changes are not at hand.
    /// - Returns: the links that waited, and their answers.
    mutating func append(_ recorded: FoldedOperation?, at position: LogPosition) -> [(Tell, Event)] {
        guard head.offset < position.offset else { return [] }
        if let recorded {
            tail.append([CommitTail.Commit(recorded)])
        } else {
            tail.restart(after: position.offset)
        }
        let before = head.offset
        head = position
        defer { waiters = [:] }
        guard let answer = answer(after: before) else { return [] }
        return waiters.values.map { ($0, answer) }
    }
}
