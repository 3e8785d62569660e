import CRDT
import Exchange
import Sync

/// The last folded operations of one database, shared by all its sessions: each session pulls from its own
/// position, so a stuck one costs nothing but falling back to a catch-up.
///
/// A session that shares its queries with the others (`QueryIndex`) gets the operations that matter to them,
/// and its own. One that waits is not woken by others; how far the log has got it is told now and then.
///
/// Invariants: each waiter is woken exactly once; between a waiter's position and the head there is nothing
/// for it. Waiters to be woken are handed out, to be woken where no lock is held.
struct LiveStream {
    /// The answer to a session that asks for operations after an offset.
    enum Answer: Sendable {
        case operations([FoldedOperation], through: LogPosition)
        case lagging(LogPosition)
    }

    /// Tells a parked session that there is something for it; nil: it is let go.
    typealias Tell = @Sendable (Answer?) -> Void

    /// A parked session that is to be told something.
    struct Wake: Sendable {
        fileprivate let tell: Tell
        fileprivate let answer: Answer?

        /// Tells it.
        func callAsFunction() { tell(answer) }
    }

    private struct Waiter {
        let after: Offset
        let tell: Tell
        /// The index knows its queries, and it is woken for them only.
        let shares: Bool
    }

    private var tail: CommitTail
    private(set) var head: LogPosition
    private var waiters: [UInt64: Waiter] = [:]
    /// Waiters without indexed queries: every operation wakes them.
    private var general: Set<UInt64> = []
    /// The head at which those that were passed over are told next.
    private var progressDue: Offset = 0

    init(head: LogPosition) {
        self.head = head
        tail = CommitTail(after: head.offset, .init(commits: Limits.liveOperations, bytes: Limits.liveBytes))
        progressDue = head.offset.advanced(by: Limits.progressOperations)
    }

    /// The answer for a session at `offset`; nil when there is nothing for it yet. A session that shares its
    /// queries passes them as `followed`: then the answer has only the operations that concern them, and its
    /// own.
    func answer(after offset: Offset, for session: UInt64 = 0, following followed: Set<UInt64>? = nil)
        -> Answer?
    {
        guard offset < head.offset else { return nil }
        let found = tail.batch(
            after: offset, bytes: Limits.liveBatchBytes, commits: Limits.liveBatchOperations
        ) { commit in
            guard let followed, commit.operation.origin != session else { return true }
            return commit.queries.contains(where: followed.contains)
        }
        guard let found else { return .lagging(head) }
        guard let through = found.through else { return nil }
        // Nothing to say but how far the log has got: not for each operation.
        if found.operations.isEmpty, offset.distance(to: through.offset) < Limits.progressOperations {
            return nil
        }
        return .operations(found.operations, through: through)
    }

    /// Parks a session that `answer` has nothing for.
    mutating func park(_ id: UInt64, after offset: Offset, shares: Bool = false, _ tell: @escaping Tell) {
        waiters[id] = Waiter(after: offset, tell: tell, shares: shares)
        if !shares { general.insert(id) }
    }

    /// Lets a parked session go without an answer.
    mutating func release(_ id: UInt64) -> Wake? { wake(id, nil) }

    /// Lets all parked sessions go.
    mutating func releaseAll() -> [Wake] { Array(waiters.keys).compactMap { release($0) } }

    private mutating func wake(_ id: UInt64, _ answer: Answer?) -> Wake? {
        guard let waiter = waiters.removeValue(forKey: id) else { return nil }
        general.remove(id)
        return Wake(tell: waiter.tell, answer: answer)
    }

    /// Tells parked sessions how far the log has got that they were not woken by.
    mutating func tellProgress() -> [Wake] {
        let late = waiters.filter { $0.value.after < head.offset }.keys
        return late.compactMap { wake($0, .operations([], through: head)) }
    }

    /// Tells one of them, if it is parked.
    mutating func tellProgress(to id: UInt64) -> Wake? {
        guard let waiter = waiters[id], waiter.after < head.offset else { return nil }
        return wake(id, .operations([], through: head))
    }

    /// Adds folded operations and wakes the sessions that they matter to, and those that share nothing.
    @discardableResult
    mutating func append(_ operations: [FoldedOperation]) -> [Wake] {
        append(operations.map { CommitTail.Commit($0) }, waking: [])
    }

    /// The same; `sessions` follow the queries of the commits, or have brought one.
    @discardableResult
    mutating func append(
        _ commits: [CommitTail.Commit], waking sessions: Set<UInt64>,
        following: (UInt64) -> Set<UInt64>? = { _ in nil }
    ) -> [Wake] {
        let previous = head.offset
        tail.append(commits)
        head = commits.last?.operation.position ?? head
        var wakes: [Wake] = []
        for id in sessions.union(general) {
            guard let waiter = waiters[id] else { continue }
            let followed = waiter.shares ? following(id) : nil
            // Before these there was nothing for it.
            let start = waiter.shares ? max(waiter.after, previous) : waiter.after
            guard let answer = answer(after: start, for: id, following: followed) else { continue }
            if let wake = wake(id, answer) { wakes.append(wake) }
        }
        if head.offset >= progressDue {
            let some = Limits.progressOperations / 2
            progressDue = head.offset.advanced(by: some)
            let late = waiters.filter { $0.value.after.distance(to: head.offset) > some }.keys
            wakes += late.compactMap { wake($0, .operations([], through: head)) }
        }
        return wakes
    }
}
