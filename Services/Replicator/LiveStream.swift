import CRDT
import Sync

/// The last folded operations of one database, shared by all its sessions: each session pulls from its own
/// position, so a stuck one costs nothing but falling back to a catch-up.
///
/// A session that shares its queries with the others (`QueryIndex`) gets the operations that matter to them,
/// and its own. One that waits is not woken by others; how far the log has got it is told now and then.
///
/// Invariants: operations are contiguous in offset; their count and bytes are bounded by `Limits`; each
/// waiter is resumed exactly once; between a waiter's position and the head there is nothing for it.
struct LiveStream {
    /// What a session gets that asks for operations after an offset.
    enum Answer {
        case operations([LiveOperation], through: LogPosition)
        case lagging(LogPosition)
    }

    /// An operation and the queries that it matters to, ascending.
    struct Concerned {
        let operation: LiveOperation
        var numbers: [UInt64] = []
    }

    private struct Entry {
        let operation: LiveOperation
        let numbers: [UInt64]
        let size: Int

        func concerns(_ session: UInt64, _ followed: Set<UInt64>) -> Bool {
            if operation.origin == session { return true }
            return numbers.contains(where: followed.contains)
        }
    }

    private struct Waiter {
        let after: UInt64
        let continuation: CheckedContinuation<Answer?, Never>
        /// What it follows is known to the index: it is woken for that only.
        let shares: Bool
    }

    /// What is kept begins at `first`; what is before has gone, and is let go of now and then.
    private var entries: [Entry?] = []
    private var first = 0
    private var size = 0
    private(set) var head: LogPosition
    private var waiters: [UInt64: Waiter] = [:]
    /// Those of them that are woken by everything.
    private var general: Set<UInt64> = []
    /// The head at which those that were passed over are told next.
    private var progressDue: UInt64 = 0

    init(head: LogPosition) {
        self.head = head
        progressDue = head.offset + Limits.progressOperations
    }

    /// The answer for a session at `offset`; nil when there is nothing for it yet. One that shares its
    /// queries is given what they are: then only what concerns it is in the answer.
    func answer(after offset: UInt64, for session: UInt64 = 0, following followed: Set<UInt64>? = nil)
        -> Answer?
    {
        guard offset < head.offset else { return nil }
        guard first < entries.count, let begin = entries[first]?.operation.position.offset,
            begin <= offset + 1
        else { return .lagging(head) }
        var batch: [LiveOperation] = []
        var bytes = 0
        var through: LogPosition?
        for case let entry? in entries[(first + Int(offset + 1 - begin))...] {
            if followed.map({ entry.concerns(session, $0) }) ?? true {
                guard
                    batch.isEmpty
                        || (bytes + entry.size <= Limits.liveBatchBytes
                            && batch.count < Limits.liveBatchOperations)
                else { break }
                batch.append(entry.operation)
                bytes += entry.size
            }
            through = entry.operation.position
        }
        guard let through else { return nil }
        // Nothing to say but how far the log has got: not for each operation.
        if batch.isEmpty, through.offset - offset < Limits.progressOperations { return nil }
        return .operations(batch, through: through)
    }

    /// Parks a session that `answer` has nothing for.
    mutating func park(
        _ id: UInt64, after offset: UInt64, shares: Bool = false,
        _ continuation: CheckedContinuation<Answer?, Never>
    ) {
        waiters[id] = Waiter(after: offset, continuation: continuation, shares: shares)
        if !shares { general.insert(id) }
    }

    /// Lets a parked session go without an answer.
    mutating func release(_ id: UInt64) { resume(id, nil) }

    /// Lets all parked sessions go.
    mutating func releaseAll() {
        for id in Array(waiters.keys) { release(id) }
    }

    private mutating func resume(_ id: UInt64, _ answer: Answer?) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        general.remove(id)
        waiter.continuation.resume(returning: answer)
    }

    /// Tells parked sessions how far the log has got that they were not woken by.
    mutating func tellProgress() {
        for (id, waiter) in waiters where waiter.after < head.offset {
            resume(id, .operations([], through: head))
        }
    }

    /// Adds folded operations and wakes the sessions that they matter to, and those that share nothing.
    mutating func append(_ operations: [LiveOperation]) {
        append(operations.map { Concerned(operation: $0) }, waking: [])
    }

    /// The same; `sessions` follow the numbers of the operations, or have brought one.
    mutating func append(
        _ operations: [Concerned], waking sessions: Set<UInt64>,
        following: (UInt64) -> Set<UInt64>? = { _ in nil }
    ) {
        let previous = head.offset
        for concerned in operations {
            let operation = concerned.operation
            let bytes = operation.changes.reduce(64 + 8 * concerned.numbers.count) {
                $0 + ($1.delta?.count ?? 0) + $1.after.count + ($1.before?.count ?? 0)
                    + 8 * ($1.matches?.count ?? 0)
            }
            entries.append(Entry(operation: operation, numbers: concerned.numbers, size: bytes))
            size += bytes
            head = operation.position
        }
        while entries.count - first > Limits.liveOperations
            || (size > Limits.liveBytes && first < entries.count - 1)
        {
            size -= entries[first]?.size ?? 0
            entries[first] = nil
            first += 1
        }
        // What has gone is moved away when it is the larger part, so each entry is moved once at most.
        if first > entries.count / 2 {
            entries.removeFirst(first)
            first = 0
        }
        for id in sessions.union(general) {
            guard let waiter = waiters[id] else { continue }
            let followed = waiter.shares ? following(id) : nil
            // Before these there was nothing for it.
            let start = waiter.shares ? max(waiter.after, previous) : waiter.after
            guard let answer = answer(after: start, for: id, following: followed) else { continue }
            resume(id, answer)
        }
        if head.offset >= progressDue {
            progressDue = head.offset + Limits.progressOperations / 2
            for (id, waiter) in waiters where head.offset > waiter.after + Limits.progressOperations / 2 {
                resume(id, .operations([], through: head))
            }
        }
    }
}
