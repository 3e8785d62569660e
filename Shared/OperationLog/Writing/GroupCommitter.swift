import Dispatch
import Glibc
import Machine
import Synchronization

/// Gathers the appends of many tasks into groups, each one transaction with one fsync.
///
/// While a group commits, calls queue up; the next group takes them all, within the group limits. So one
/// appender pays one fsync per call, and sixty-four share one.
///
/// Invariants
/// - Groups are formed in order of arrival, begun and finished in that order, and calls are never split. At
///   most `groupsUnderWay` are begun and not finished.
/// - A call is answered exactly once, and after its group's commit.
/// - After a poisoned group nothing is committed until `recover`: queued and future calls are refused.
///
/// `state` guards queue and health. The holder of the turn (`isTaken`) begins and finishes groups: one
/// thread at a time, with the lock between one and the next. As a rule that is `queue`, which exists so
/// that a blocking fsync never occupies a thread of the cooperative pool.
///
/// A caller that finds the turn free takes it, provided that its commit is short (`runsInline`,
/// `Commit.isDecided`). Its group is its one call. This saves waking the committing thread and then the
/// caller, which would cost more than the rest of an append apart from its commit. A commit that takes
/// longer than `LogLimits.callerPatience`, during which a pool thread is idle, continues on `queue`. A caller
/// on a thread that may block (`appendBlocking`) needs no such conditions.
///
/// Waking a sleeping thread costs a good part of a commit. So while calls follow each other closely (one
/// caller appends, waits, appends), the committing thread polls for the next one for a moment before it
/// sleeps (`LogLimits.commitPatience`); with longer pauses it sleeps at once.
///
/// Callers that were answered together come back together, but one after the other. The next group waits
/// for them, or every other sync would be for a few. If a commit is quicker than their return, the next
/// group is half of them: one half comes back while the other half commits. If two groups may be under way,
/// many callers always alternate in halves, and each half is already sent when the other is done.
package final class GroupCommitter: Sendable {
    /// A commit that was begun.
    package struct Commit {
        /// Returns whether the group's outcome is known within this time, so that `finish` does not wait.
        let isDecided: (Duration) -> Bool
        /// Commits; `announce` does the work that can wait until the callers were answered.
        let finish: () -> (outcome: GroupOutcome, announce: () -> Void)

        /// A commit whose outcome takes as long as it takes, for callers that can spare a thread.
        package init(
            isDecided: @escaping (Duration) -> Bool = { _ in false },
            finish: @escaping () -> (outcome: GroupOutcome, announce: () -> Void)
        ) {
            self.isDecided = isDecided
            self.finish = finish
        }
    }

    /// Begins to commit a group without waiting for the outcome.
    package typealias Begin = @Sendable ([AppendCall]) -> Commit

    /// Returns whether a caller with the turn may commit this call: beginning it, and finishing it once
    /// decided, must not wait.
    package typealias RunsInline = @Sendable (AppendCall) -> Bool

    /// A group that was begun. Unchecked: it belongs to the holder of the turn, and is handed on with it.
    private struct UnderWay: @unchecked Sendable {
        let group: [Pending]
        let start: ContinuousClock.Instant
        let commit: Commit
    }

    private typealias CallAnswer = PendingAnswer<Result<[AppendOutcome], any Error>>

    private struct Pending {
        let call: AppendCall
        let answer: CallAnswer
    }

    private struct State {
        var pending: [Pending] = []
        /// True while a thread has the turn.
        var isTaken = false
        /// The reason why calls are refused; nil while they are taken.
        var refusal: OperationLogError?
        /// True once `close` was called: nothing takes calls again.
        var isClosed = false
    }

    private let gate: AdmissionGate
    /// The queue of the committing thread.
    let queue: DispatchQueue
    private let groupsUnderWay: Int
    private let runsInline: RunsInline?
    private let begin: Begin
    private let onPoison: @Sendable (OperationLogError) -> Void
    private let state = Mutex(State())
    /// True once `close` was called and the last turn has ended. Callers of `close` wait for it.
    private let isOver = Monitor(false)
    /// Copies of the state for readers without the lock, which enqueuing callers need: the number of
    /// pending calls, and whether calls are refused. Written under the lock.
    private let pendingCount = Atomic(0)
    private let isRefusing = Atomic(false)
    /// True if the previous group took no longer than a caller that commits by itself may wait.
    private let isQuick = Atomic(true)
    /// The end of the last commit.
    private let lastEnd = Mutex(ContinuousClock.now)

    /// A committer of this gate. `begin` is called with non-empty groups; at most `groupsUnderWay` of them
    /// are begun and not finished.
    /// - Parameters:
    ///   - runsInline: if nil, no caller commits by itself.
    ///   - onPoison: called after each `poison`, when calls are refused already.
    package init(
        gate: AdmissionGate, groupsUnderWay: Int = 1, runsInline: RunsInline? = nil,
        onPoison: @escaping @Sendable (OperationLogError) -> Void = { _ in }, begin: @escaping Begin
    ) {
        precondition(1...2 ~= groupsUnderWay, "groups cannot be committed \(groupsUnderWay) at a time")
        self.gate = gate
        self.groupsUnderWay = groupsUnderWay
        self.runsInline = runsInline
        self.begin = begin
        self.onPoison = onPoison
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

    /// True while calls are being committed or expected.
    var hasTurnTaken: Bool { state.withLock { $0.isTaken } }
    /// The number of calls that wait for the next group.
    var waitingCalls: Int { pendingCount.load(ordering: .relaxed) }

    /// Returns the outcomes once the call's group is durable.
    package func append(_ call: AppendCall) async throws -> [AppendOutcome] {
        try checkHealth()
        guard !call.operations.isEmpty else { return [] }
        try await gate.acquire(call.cost)
        defer { gate.release(call.cost) }
        if takeTurn(for: call) { return try await commitHere(call) }
        let answer = CallAnswer()
        enqueue(Pending(call: call, answer: answer))
        return try await answer.get()
    }

    /// The same on a thread that may block: it commits its call itself when it finds the turn free.
    func appendBlocking(_ call: AppendCall) throws -> [AppendOutcome] {
        try checkHealth()
        guard !call.operations.isEmpty else { return [] }
        try gate.acquireBlocking(call.cost)
        defer { gate.release(call.cost) }
        if takeTurn() { return try finishHere(begin([call])) }
        let answer = CallAnswer()
        enqueue(Pending(call: call, answer: answer))
        return try answer.wait().get()
    }

    /// Throws the reason if calls are refused.
    package func checkHealth() throws {
        if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    }

    /// Refuses all calls after a failure whose durability is unknown. The first reason stays, but for damage,
    /// after which nothing recovers.
    func poison(_ failure: OperationLogError) {
        refuseAll(.poisoned(by: failure), isClosing: false)
        onPoison(failure)
    }

    /// Takes calls again after `poison`; the driver has found out what is stored. A closed committer stays
    /// closed. A poison that comes at the same time may win, and calls `onPoison` after it.
    func recover() {
        state.withLock { state in
            guard !state.isClosed, state.refusal?.code != .corrupt else { return }
            state.refusal = nil
            isRefusing.store(false, ordering: .relaxed)
            gate.open()
        }
    }

    /// Refuses new calls, and returns when the queued ones have been answered.
    package func close(_ refusal: OperationLogError) async {
        refuseAll(refusal, isClosing: true)
        // Nobody takes a turn any more, so one that is free now stays free.
        if state.withLock({ !$0.isTaken }) { isOver.change { $0 = true } }
        await isOver.wait { $0 }
    }

    /// Refuses new calls, and unless it is closing the queued ones too.
    private func refuseAll(_ refusal: OperationLogError, isClosing: Bool) {
        let refused = state.withLock { state -> [Pending] in
            state.refusal = refusal.code == .corrupt ? refusal : state.refusal ?? refusal
            isRefusing.store(true, ordering: .relaxed)
            guard !isClosing else {
                state.isClosed = true
                return []
            }
            defer { state.pending = [] }
            pendingCount.store(0, ordering: .relaxed)
            return state.pending
        }
        gate.close(refusal)
        for pending in refused { pending.answer.give(.failure(refusal)) }
    }

    private func enqueue(_ pending: Pending) {
        let (refusal, mustStart) = state.withLock { state -> (OperationLogError?, Bool) in
            if let refusal = state.refusal { return (refusal, false) }
            state.pending.append(pending)
            pendingCount.store(state.pending.count, ordering: .relaxed)
            defer { state.isTaken = true }
            return (nil, !state.isTaken)
        }
        if let refusal { pending.answer.give(.failure(refusal)) }
        if mustStart { queue.async { self.drain() } }
    }

    /// Takes the turn for a call, if it is free and the call's commit is short.
    private func takeTurn(for call: AppendCall) -> Bool {
        guard runsInline != nil, isQuick.load(ordering: .relaxed), takeTurn() else { return false }
        guard commitsByItself(call) else {
            passTurn()
            return false
        }
        return true
    }

    /// Takes the turn, if it is free.
    private func takeTurn() -> Bool {
        state.withLock { state in
            guard !state.isTaken, state.refusal == nil else { return false }
            state.isTaken = true
            return true
        }
    }

    /// Returns whether a caller with the turn commits this call by itself. Called with the turn.
    private func commitsByItself(_ call: AppendCall) -> Bool {
        isQuick.load(ordering: .relaxed) && runsInline?(call) ?? false
    }

    /// Commits the caller's own call in its turn, or hands it to `queue` if it takes longer.
    private func commitHere(_ call: AppendCall) async throws -> [AppendOutcome] {
        let start = ContinuousClock.now
        let commit = begin([call])
        guard commit.isDecided(LogLimits.callerPatience) else {
            let answer = CallAnswer()
            let group = [Pending(call: call, answer: answer)]
            let begun = UnderWay(group: group, start: start, commit: commit)
            queue.async { self.drain(goingOnWith: begun) }
            return try await answer.get()
        }
        return try finishHere(commit)
    }

    /// Finishes the commit of the caller's own call, with the turn.
    private func finishHere(_ commit: Commit) throws -> [AppendOutcome] {
        let (outcome, announce) = commit.finish()
        announce()
        let answer = answers(outcome, to: 1)[0]
        lastEnd.withLock { $0 = ContinuousClock.now }
        passTurn()
        return try answer.get()
    }

    /// Ends a turn; the committing thread takes the calls that came meanwhile.
    private func passTurn() {
        let ending = state.withLock { state in state.pending.isEmpty ? endTurn(&state) : nil }
        guard let ending else { return queue.async { self.drain() } }
        if ending == .last { isOver.change { $0 = true } }
    }

    /// - Parameter first: a group already begun in this turn.
    private func drain(goingOnWith first: UnderWay? = nil) {
        /// The time a call takes to return after its answer, measured when all were waited for.
        var comingBack = Duration.zero
        var isBusy = lastEnd.withLock { ContinuousClock.now - $0 } < LogLimits.commitPatience * 10
        defer { lastEnd.withLock { $0 = ContinuousClock.now } }
        /// An estimate of the callers that append repeatedly: those answered last, and all that were under
        /// way or waiting then.
        var callers = 0
        var behind = first
        while let current = behind ?? nextGroup(calls: share(of: callers)).map(start) {
            let returning = callers - current.group.count
            behind = isBusy ? startBehind(current, returning: max(0, returning)) : nil
            let (outcome, announce) = current.commit.finish()
            let end = ContinuousClock.now
            isQuick.store(end - current.start <= LogLimits.callerPatience, ordering: .relaxed)
            let (count, others) = (current.group.count, behind?.group.count ?? 0)
            let waiting = pendingCount.load(ordering: .relaxed)
            callers = count + others + waiting
            for (pending, answer) in zip(current.group, answers(outcome, to: count)) {
                pending.answer.give(answer)
            }
            announce()
            // Nobody polls for an only caller that will commit by itself.
            guard behind == nil, callers > 1 || !commitsByItself(current.group[0].call) else { continue }
            guard isBusy else {
                isBusy = waiting > 0
                continue
            }
            if takeTurns(callers) || end - current.start < comingBack * callers {
                _ = lookForMore(expected: (callers + 1) / 2)
            } else if lookForMore(expected: count) {
                comingBack = (ContinuousClock.now - end) / count
            }
        }
    }

    /// Returns whether this many callers are served by two alternating groups.
    private func takeTurns(_ callers: Int) -> Bool {
        groupsUnderWay > 1 && callers >= LogLimits.callersInTurns
    }

    /// The greatest number of calls in a group when this many callers share the groups.
    private func share(of callers: Int) -> Int { takeTurns(callers) ? (callers + 1) / 2 : .max }

    private func start(_ group: [Pending]) -> UnderWay {
        UnderWay(group: group, start: .now, commit: begin(group.map(\.call)))
    }

    /// Begins another group after one that is under way, if many callers alternate.
    /// - Parameter returning: the number of calls that are coming back.
    private func startBehind(_ current: UnderWay, returning: Int) -> UnderWay? {
        let count = current.group.count
        guard takeTurns(count + max(returning, pendingCount.load(ordering: .relaxed))) else { return nil }
        _ = lookForMore(expected: returning)
        return state.withLock { state -> [Pending]? in
            // The few early calls alone would cost a commit of their own.
            guard state.pending.count * 2 >= count else { return nil }
            return takeGroup(&state, calls: share(of: count + state.pending.count))
        }.map(start)
    }

    /// The answer to each call of a group.
    private func answers(
        _ outcome: GroupOutcome, to count: Int
    ) -> [Result<[AppendOutcome], any Error>] {
        switch outcome {
        case .committed(let results):
            precondition(results.count == count, "a group of \(count) calls had \(results.count) results")
            return results.map { result in result.mapError { $0 as any Error } }
        case .refused(let error): return Array(repeating: .failure(error), count: count)
        case .poisoned(let error):
            poison(error)
            return Array(repeating: .failure(error), count: count)
        }
    }

    /// Returns when as many calls wait as are expected, or when no further one comes for a moment.
    /// - Returns: whether the expected number came.
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

    /// The next group, of at most this many calls; nil when none waits, which ends the turn.
    private func nextGroup(calls: Int) -> [Pending]? {
        let (group, ending) = state.withLock { state -> ([Pending]?, TurnEnd?) in
            state.pending.isEmpty ? (nil, endTurn(&state)) : (takeGroup(&state, calls: calls), nil)
        }
        if ending == .last { isOver.change { $0 = true } }
        return group
    }

    /// The end of a turn after which another one may follow, or none.
    private enum TurnEnd {
        case more
        case last
    }

    /// Gives the turn back.
    private func endTurn(_ state: inout State) -> TurnEnd {
        state.isTaken = false
        return state.isClosed ? .last : .more
    }

    /// Takes a group of at most this many calls from the waiting ones.
    private func takeGroup(_ state: inout State, calls: Int) -> [Pending] {
        let count = min(calls, groupSize(state.pending))
        let group = Array(state.pending.prefix(count))
        state.pending.removeFirst(count)
        pendingCount.store(state.pending.count, ordering: .relaxed)
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
    /// The reason for refusing calls after a failure whose durability is unknown.
    static func poisoned(by failure: OperationLogError) -> OperationLogError {
        guard failure.code != .poisoned, failure.code != .corrupt else { return failure }
        return OperationLogError(
            .poisoned, "an earlier commit failed, and the log is not recovered yet: \(failure.message)",
            database: failure.database)
    }
}
