import CRDT
import Sync

/// The last folded operations of one database, shared by all its sessions: each session pulls from its own
/// position, so a stuck one costs nothing but falling back to a catch-up.
///
/// Invariants: operations are contiguous in offset; their count and bytes are bounded by `Limits`; each
/// waiter is resumed exactly once.
struct LiveStream {
    /// What a session gets that asks for operations after an offset.
    enum Answer {
        case operations([LiveOperation], through: LogPosition)
        case lagging(LogPosition)
    }

    private struct Entry {
        let operation: LiveOperation
        let size: Int
    }

    /// What is kept begins at `first`; what is before has gone, and is let go of now and then.
    private var entries: [Entry?] = []
    private var first = 0
    private var size = 0
    private(set) var head: LogPosition
    private var waiters: [UInt64: (after: UInt64, continuation: CheckedContinuation<Answer?, Never>)] = [:]

    init(head: LogPosition) { self.head = head }

    /// The answer for a session at `offset`; nil when there is nothing after it yet.
    func answer(after offset: UInt64) -> Answer? {
        guard offset < head.offset else { return nil }
        guard first < entries.count, let begin = entries[first]?.operation.position.offset,
            begin <= offset + 1
        else { return .lagging(head) }
        var batch: [LiveOperation] = []
        var bytes = 0
        for entry in entries[(first + Int(offset + 1 - begin))...] {
            guard let entry,
                batch.isEmpty
                    || (bytes + entry.size <= Limits.liveBatchBytes
                        && batch.count < Limits.liveBatchOperations)
            else { break }
            batch.append(entry.operation)
            bytes += entry.size
        }
        return batch.last.map { .operations(batch, through: $0.position) }
    }

    /// Parks a session that is at the head. `answer` returns nil for it.
    mutating func park(
        _ id: UInt64, after offset: UInt64, _ continuation: CheckedContinuation<Answer?, Never>
    ) {
        waiters[id] = (offset, continuation)
    }

    /// Lets a parked session go without an answer.
    mutating func release(_ id: UInt64) {
        waiters.removeValue(forKey: id)?.continuation.resume(returning: nil)
    }

    /// Lets all parked sessions go.
    mutating func releaseAll() {
        for id in Array(waiters.keys) { release(id) }
    }

    /// Adds folded operations and wakes the sessions that wait for them.
    mutating func append(_ operations: [LiveOperation]) {
        for operation in operations {
            let bytes = operation.changes.reduce(64) {
                $0 + ($1.delta?.count ?? 0) + $1.after.count + ($1.before?.count ?? 0)
            }
            entries.append(Entry(operation: operation, size: bytes))
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
        for (id, waiter) in waiters {
            guard let answer = answer(after: waiter.after) else { continue }
            waiters.removeValue(forKey: id)
            waiter.continuation.resume(returning: answer)
        }
    }
}
