import Dispatch
import Glibc
import Synchronization

/// Gathers the appends of many tasks into groups, each one transaction with one fsync.
///
/// While a group commits, calls queue up; the next group takes them all, within the group limits. So one
/// appender pays one fsync per call, and sixty-four share one.
///
/// Invariants
/// - At most one group is being committed; groups are formed in order of arrival and calls are never split.
/// - A call is answered exactly once, and after its group's commit.
/// - After a poisoned group nothing is committed any more: what is queued and what comes is refused.
///
/// `state` guards queue and health. `commit` runs on `queue` only, which exists so that a blocking fsync
/// never occupies a thread of the cooperative pool.
///
/// Waking a sleeping thread costs a good part of what a commit does. So while calls follow each other closely
/// (somebody appends, waits, appends), the committing thread looks for the next one for a moment before it
/// sleeps (`LogLimits.commitPatience`); with longer pauses it sleeps at once. And those that were answered
/// together come back together, but one after the other: while they do, the next group is not begun with the
/// first of them alone, or every other sync would be for a few. Where a commit takes less time than they do,
/// the next group is half of them: one half comes back while the other one is committed.
package final class GroupCommitter: Sendable {
    /// Commits a group; `announce` tells readers of it, after its callers.
    package typealias Commit = @Sendable ([AppendCall]) -> (outcome: GroupOutcome, announce: () -> Void)

    private struct Pending {
        let call: AppendCall
        let continuation: CheckedContinuation<[AppendOutcome], any Error>
    }

    private struct State {
        var pending: [Pending] = []
        var isDraining = false
        /// Why nothing is taken any more.
        var refusal: OperationLogError?
        /// Who waits for the last group after `close`.
        var closers: [CheckedContinuation<Void, Never>] = []
    }

    private let gate: AdmissionGate
    private let queue: DispatchQueue
    private let commit: Commit
    private let state = Mutex(State())
    /// The same for whoever looks without the lock, which those that enqueue need: how many calls are
    /// pending, and whether nothing is taken any more. Written under the lock.
    private let pendingCount = Atomic(0)
    private let isRefusing = Atomic(false)
    /// When the last drain ended.
    private let lastEnd = Mutex(ContinuousClock.now)

    /// A committer of this gate; `commit` is called with non-empty groups, one at a time.
    package init(gate: AdmissionGate, commit: @escaping Commit) {
        self.gate = gate
        self.commit = commit
        queue = DispatchQueue(label: "mimeo.operation-log.commit")
    }

    /// Queue figures and health.
    package var status: LogStatus {
        let load = gate.load
        return LogStatus(
            queuedOperations: load.used.operations, queuedBytes: load.used.bytes,
            waitingAppends: load.waiters,
            refusal: state.withLock { $0.refusal })
    }

    /// Returns the outcomes once the call's group is durable.
    package func append(_ call: AppendCall) async throws -> [AppendOutcome] {
        try checkHealth()
        guard !call.operations.isEmpty else { return [] }
        try await gate.acquire(call.cost)
        defer { gate.release(call.cost) }
        return try await withCheckedThrowingContinuation { continuation in
            enqueue(Pending(call: call, continuation: continuation))
        }
    }

    /// Throws why nothing is taken any more, if so.
    package func checkHealth() throws {
        if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    }

    /// Takes nothing any more because of a failure whose durability is unknown. The first reason stays.
    func poison(_ failure: OperationLogError) {
        refuseAll(.poisoned(by: failure), alsoQueued: true)
    }

    /// Takes nothing any more, and returns when what was queued has been answered.
    package func close(_ refusal: OperationLogError) async {
        refuseAll(refusal, alsoQueued: false)
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                if state.isDraining { state.closers.append(continuation) }
                return !state.isDraining
            }
            if isIdle { continuation.resume() }
        }
    }

    private func refuseAll(_ refusal: OperationLogError, alsoQueued: Bool) {
        let refused = state.withLock { state -> [Pending] in
            state.refusal = state.refusal ?? refusal
            isRefusing.store(true, ordering: .relaxed)
            guard alsoQueued else { return [] }
            defer { state.pending = [] }
            pendingCount.store(0, ordering: .relaxed)
            return state.pending
        }
        gate.close(refusal)
        for pending in refused { pending.continuation.resume(throwing: refusal) }
    }

    private func enqueue(_ pending: Pending) {
        let (refusal, mustStart) = state.withLock { state -> (OperationLogError?, Bool) in
            if let refusal = state.refusal { return (refusal, false) }
            state.pending.append(pending)
            pendingCount.store(state.pending.count, ordering: .relaxed)
            defer { state.isDraining = true }
            return (nil, !state.isDraining)
        }
        if let refusal { pending.continuation.resume(throwing: refusal) }
        if mustStart { queue.async { self.drain() } }
    }

    private func drain() {
        /// How long a call takes to come back after its answer, where all were waited for.
        var comingBack = Duration.zero
        let isBusy = lastEnd.withLock { ContinuousClock.now - $0 } < LogLimits.commitPatience * 10
        defer { lastEnd.withLock { $0 = ContinuousClock.now } }
        while let group = nextGroup() {
            let start = ContinuousClock.now
            let (outcome, announce) = commit(group.map(\.call))
            let end = ContinuousClock.now
            switch outcome {
            case .committed(let results):
                let counts = "a group of \(group.count) calls had \(results.count) results"
                precondition(results.count == group.count, counts)
                for (pending, result) in zip(group, results) {
                    pending.continuation.resume(with: result.mapError { $0 as any Error })
                }
            case .refused(let error):
                for pending in group { pending.continuation.resume(throwing: error) }
            case .poisoned(let error):
                poison(error)
                for pending in group { pending.continuation.resume(throwing: error) }
            }
            announce()
            guard isBusy else { continue }
            let callers = group.count + pendingCount.load(ordering: .relaxed)
            if end - start < comingBack * callers {
                _ = lookForMore(expected: (callers + 1) / 2)
            } else if lookForMore(expected: group.count) {
                comingBack = (ContinuousClock.now - end) / group.count
            }
        }
    }

    /// Returns when as many calls wait as are expected, or no further one comes for a moment.
    /// - Returns: whether as many do.
    private func lookForMore(expected: Int) -> Bool {
        var seen = 0
        var end = ContinuousClock.now + LogLimits.commitPatience
        while true {
            let count = pendingCount.load(ordering: .relaxed)
            guard count < expected else { return true }
            guard !isRefusing.load(ordering: .relaxed) else { return false }
            let now = ContinuousClock.now
            if count > seen { (seen, end) = (count, now + LogLimits.commitGap) }
            guard now < end else { return false }
            sched_yield()
        }
    }

    /// The next group, or nil when there is none: then the drain ends and closers go on.
    private func nextGroup() -> [Pending]? {
        typealias Closers = [CheckedContinuation<Void, Never>]
        let (group, closers) = state.withLock { state -> ([Pending]?, Closers) in
            guard !state.pending.isEmpty else {
                state.isDraining = false
                defer { state.closers = [] }
                return (nil, state.closers)
            }
            let count = groupSize(state.pending)
            let group = Array(state.pending.prefix(count))
            state.pending.removeFirst(count)
            pendingCount.store(state.pending.count, ordering: .relaxed)
            return (group, [])
        }
        for closer in closers { closer.resume() }
        return group
    }

    private func groupSize(_ pending: [Pending]) -> Int {
        var operations = 0
        var bytes = 0
        for (index, item) in pending.enumerated() {
            operations += item.call.cost.operations
            bytes += item.call.cost.bytes
            let isOver = operations > LogLimits.groupOperations || bytes > LogLimits.groupBytes
            if isOver && index > 0 { return index }
        }
        return pending.count
    }
}

extension OperationLogError {
    /// Why nothing is taken any more behind a failure whose durability is unknown.
    static func poisoned(by failure: OperationLogError) -> OperationLogError {
        guard failure.code != .poisoned else { return failure }
        return OperationLogError(
            .poisoned, "an earlier commit failed, open the log again: \(failure.message)",
            database: failure.database)
    }
}
