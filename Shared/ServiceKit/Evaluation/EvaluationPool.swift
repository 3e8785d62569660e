import CRDT
import DQL
import Dispatch
import Machine
import Synchronization

/// Evaluates statements and subscriptions on threads of its own: nothing else runs there, and they run
/// nowhere else, so a costly condition delays only others of its kind. `EvaluationSchedule` decides which
/// turn comes next; decision 0053 has the reasons.
///
/// A turn runs on one thread to its end. After each slice it gives way at a check of the evaluator, where
/// its thread waits until it is next again, or until its evaluation has ended: then it only unwinds, and
/// waits for nobody. A turn whose thread has had the processor for `Limits.evaluationMoment` lowers the
/// thread's priority, which the system lets nobody raise again. Waiting, for a disk or a busy machine, does
/// not count. Lowered threads run the turns of credentials that have computed for as long without a pause:
/// two hundred turns of ten milliseconds are not one moment. A thread begins with the priority of the one
/// that began it, so lowered ones leave to another what may begin some (`WorkerThread.atUsualPriority`).
///
/// `state` guards the schedule, the threads and the list of running evaluations. It is never held while
/// anything runs.
public final class EvaluationPool: Sendable {
    /// A turn that waits.
    private enum Waiting {
        /// For its beginning.
        case toBegin(@Sendable (Worker) -> Void)
        /// For its next slice.
        case toGoOn(DispatchSemaphore)
    }

    private struct State {
        var schedule: EvaluationSchedule
        var waiting: [UInt64: Waiting] = [:]
        var idle: [Worker] = []
        /// The idle ones of low priority.
        var lowered: [Worker] = []
        var running: [UInt64: Evaluation] = [:]
        var lastNumber: UInt64 = 0
    }

    /// The bounds of statements and subscriptions.
    public let options: EvaluationOptions
    private let threads = EvaluationSeats(Limits.evaluationThreads)
    private let state: Mutex<State>

    /// A pool without threads yet.
    public init(_ options: EvaluationOptions = EvaluationOptions()) {
        self.options = options
        state = Mutex(State(schedule: EvaluationSchedule(places: options.places)))
    }

    deinit {
        for worker in state.withLock({ $0.idle + $0.lowered }) { worker.end() }
    }

    // MARK: Running evaluations

    /// Accepts a statement, which counts as running until `finish`.
    /// - Throws: `SRV-0429` while as many statements of its credential run in the database.
    public func statement(
        _ text: String, of credential: String, in database: DatabaseID
    ) throws(ServiceError) -> Evaluation {
        let limit = options.statementsPerCredential
        let purpose = Evaluation.Purpose(.statement, of: credential, in: database, text: text)
        let begun = state.withLock { state -> Evaluation? in
            guard Self.running(state, of: credential, in: database) < limit else { return nil }
            state.lastNumber += 1
            let evaluation = Evaluation(
                state.lastNumber, purpose, EvaluationTimes(total: options.statementTime), self)
            state.running[evaluation.number] = evaluation
            return evaluation
        }
        guard let begun else {
            throw ServiceError(
                .tooManyRunning,
                "\(limit) statements of this credential are running, which is the limit; wait for one, or "
                    + "cancel it: GET /api/v5/requests lists them")
        }
        return begun
    }

    /// Begins a part of a stream's work, which is listed among the running statements until `finish`. It does
    /// not count as one of them: streams have a limit of their own, and each does one part at a time.
    public func part(of text: String, of credential: String, in database: DatabaseID) -> Evaluation {
        let purpose = Evaluation.Purpose(.stream, of: credential, in: database, text: text)
        return state.withLock { state in
            state.lastNumber += 1
            let evaluation = Evaluation(
                state.lastNumber, purpose, EvaluationTimes(total: options.statementTime), self)
            state.running[evaluation.number] = evaluation
            return evaluation
        }
    }

    /// Runs a statement that takes a moment on the caller's thread, beside the turns. Its time is its
    /// credential's, as a turn's is.
    /// - Returns: nil, without a run, while the credential has as many statements running as it may, or owes
    ///   others their turns: then the statement has to be accepted as any other one.
    public func briefly<Result>(
        of credential: String, in database: DatabaseID, _ body: () -> Result?
    ) -> Result? {
        let may = state.withLock { state in
            guard state.schedule.mayComputeBriefly(credential) else { return false }
            return Self.running(state, of: credential, in: database) < options.statementsPerCredential
        }
        guard may else { return nil }
        let begin = ContinuousClock.now
        let result = body()
        let used = (ContinuousClock.now - begin).wholeNanoseconds
        state.withLock { $0.schedule.charge(brief: credential, used) }
        return result
    }

    func charge(_ time: Duration, to credential: String) {
        let used = time.wholeNanoseconds
        state.withLock { $0.schedule.charge(brief: credential, used) }
    }

    private static func running(
        _ state: borrowing State, of credential: String, in database: DatabaseID
    ) -> Int {
        guard !state.running.isEmpty else { return 0 }
        return state.running.values.count {
            $0.purpose.kind == .statement && $0.purpose.database == database
                && utf8Equal($0.purpose.credential, credential)
        }
    }

    /// Begins the evaluation of a session's subscriptions. Their number is bounded by the sessions, each of
    /// which evaluates one thing at a time.
    /// - Parameters:
    ///   - limit: the processor's time that it may take; nil if the caller limits the parts.
    ///   - text: names it among the running statements until `finish`; nil for one that is not listed.
    public func subscription(
        of credential: String, in database: DatabaseID, limit: Duration?, as text: String? = nil
    ) -> Evaluation {
        let purpose = Evaluation.Purpose(.subscription, of: credential, in: database, text: text ?? "")
        return state.withLock { state in
            state.lastNumber += 1
            let evaluation = Evaluation(
                state.lastNumber, purpose,
                EvaluationTimes(total: limit.map { _ in options.statementTime }, computing: limit), self)
            if text != nil { state.running[evaluation.number] = evaluation }
            return evaluation
        }
    }

    /// Evaluates a subscription, with the limits of such; it is listed meanwhile. It is begun again if it has
    /// ended after `statementTime` with less than its time of the processor, which others had: in between it
    /// gives its seats back.
    public func subscribing<Result>(
        of credential: String, in database: DatabaseID, as text: String,
        _ body: (Evaluation) async throws -> Result
    ) async throws -> Result {
        var rest = options.subscriptionTime
        while true {
            let evaluation = subscription(of: credential, in: database, limit: rest, as: text)
            defer { finish(evaluation) }
            do {
                return try await body(evaluation)
            } catch let error as DQLError where error.code == .timeout {
                rest -= evaluation.processorTime
                guard rest > .zero, !Task.isCancelled else { throw error }
            }
        }
    }

    /// Ends an evaluation's place among the running ones, and lets go of what it leaves.
    public func finish(_ evaluation: Evaluation) {
        state.withLock { $0.running[evaluation.number] = nil }
        guard let leavings = evaluation.takeLeavings() else { return }
        discard(leavings, of: evaluation.purpose.credential, in: evaluation.purpose.database)
    }

    /// Lets go of large things in a turn of their owner, which nobody waits for: freeing a hundred thousand
    /// nodes takes some ten milliseconds.
    public func discard(_ leavings: Leavings, of credential: String, in database: DatabaseID) {
        // Without a limit: it ends by itself.
        let evaluation = subscription(of: credential, in: database, limit: nil)
        enter(evaluation, nil, isUrgent: false) { _ in
            leavings.drop()
            return {}
        }
    }

    /// The running statements of a database, the oldest first.
    /// - Parameter credential: whose; nil for all.
    public func statements(in database: DatabaseID, of credential: String? = nil) -> [Evaluation] {
        state.withLock { state in
            state.running.values.filter { running in
                running.purpose.database == database
                    && credential.map { utf8Equal($0, running.purpose.credential) } ?? true
            }
        }.sorted { $0.number < $1.number }
    }

    /// The number of evaluations that were ever begun.
    var begun: UInt64 { state.withLock { $0.lastNumber } }

    /// The number of turns, waiting and computing.
    public var turns: Int { state.withLock { $0.schedule.count } }

    // MARK: Turns

    /// Runs a piece of work, or its refusal, and returns what tells its caller.
    private typealias Work = @Sendable (_ refusal: DQLError?) -> @Sendable () -> Void

    func run<Result: Sendable>(
        _ evaluation: Evaluation, seats: EvaluationSeats?, isUrgent: Bool,
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        let answer = PendingAnswer<Swift.Result<Result, any Error>>()
        return try await withTaskCancellationHandler {
            enter(evaluation, seats, isUrgent: isUrgent) { refusal in
                let outcome = Swift.Result {
                    if let refusal { throw refusal }
                    return try body()
                }
                return { answer.give(outcome) }
            }
            return try await answer.get()
        } onCancel: {
            evaluation.end(.abandoned)
        }
    }

    private func enter(
        _ evaluation: Evaluation, _ seats: EvaluationSeats?, isUrgent: Bool, _ work: @escaping Work
    ) {
        let needed = seats.map { [threads, $0] } ?? [threads]
        typealias Arrival = (id: UInt64, withdraw: @Sendable () -> Void, hasEnded: Bool)
        let (id, withdraw, hasEnded) = state.withLock { state -> Arrival in
            let id = state.schedule.arrive(
                evaluation.purpose.credential, seats: needed, isUrgent: isUrgent)
            state.waiting[id] = .toBegin { [self] in perform(id, evaluation, isUrgent, $0, work) }
            let withdraw: @Sendable () -> Void = { [self] in self.withdraw(id, evaluation, work) }
            // Under the lock: were it noted after the turn has ended, the evaluation would keep itself.
            return (id, withdraw, !evaluation.wait(withdraw))
        }
        if hasEnded { return withdraw() }
        // On a lowered thread if that lets go of something large.
        WorkerThread.atUsualPriority { [self] in
            dispatch()
            // Rare: who waits so long that he has not begun by now.
            guard state.withLock({ $0.waiting[id] != nil }) else { return }
            evaluation.watchDeadline()
        }
    }

    /// Takes a turn that has not begun out of the queue, and tells its caller.
    private func withdraw(_ id: UInt64, _ evaluation: Evaluation, _ work: Work) {
        let isOut = state.withLock { state in
            guard state.schedule.withdraw(id) else { return false }
            state.waiting[id] = nil
            return true
        }
        if isOut { work(.interrupted(evaluation.end == .timeout ? .timeout : .cancelled))() }
    }

    /// Lets those compute whose turn it is.
    private func dispatch() {
        while let start = state.withLock({ Self.next(&$0) }) { start() }
    }

    private static func next(_ state: inout State) -> (() -> Void)? {
        guard let (id, _) = state.schedule.next() else { return nil }
        switch state.waiting.removeValue(forKey: id) {
        case .toBegin(let job)?:
            let isLowered = state.schedule.isLasting(id)
            let worker = isLowered ? state.lowered.popLast() : state.idle.popLast()
            return { (worker ?? Worker(isLowered: isLowered)).take(job) }
        case .toGoOn(let bell)?: return { bell.signal() }
        case nil: preconditionFailure("a turn that waits is listed")
        }
    }

    private func perform(
        _ id: UInt64, _ evaluation: Evaluation, _ isUrgent: Bool, _ worker: Worker, _ work: Work
    ) {
        let turn = EvaluationTurn(id, evaluation, worker, isUrgent: isUrgent)
        evaluation.setTurn(turn)
        let tell = work(evaluation.interruption().map(DQLError.interrupted))
        let used = turn.endSlice(at: .now)
        evaluation.setTurn(nil, after: turn)
        let processor = turn.processorTime.wholeNanoseconds
        let staysOn = state.withLock { state in
            state.schedule.note(id, processorNanoseconds: processor)
            state.schedule.end(id, usedNanoseconds: used.wholeNanoseconds)
            if worker.isLowered {
                guard state.lowered.count < options.places else { return false }
                state.lowered.append(worker)
            } else {
                guard state.idle.count < options.places else { return false }
                state.idle.append(worker)
            }
            return true
        }
        if !staysOn { worker.end() }
        WorkerThread.atUsualPriority { [self] in
            dispatch()
            tell()
        }
    }

    /// Called on a turn's thread before it waits for a server: others may compute meanwhile.
    func leave(_ turn: EvaluationTurn) {
        let used = turn.endSlice(at: .now)
        turn.beginWait(at: .now)
        state.withLock { $0.schedule.leave(turn.id, usedNanoseconds: used.wholeNanoseconds) }
        WorkerThread.atUsualPriority { [self] in dispatch() }
    }

    /// Called on a turn's thread after that; waits for a place.
    func comeBack(_ turn: EvaluationTurn) {
        turn.endWait(at: .now)
        state.withLock { state in
            state.schedule.comeBack(turn.id)
            state.waiting[turn.id] = .toGoOn(turn.bell)
        }
        WorkerThread.atUsualPriority { [self] in dispatch() }
        turn.bell.wait()
        turn.beginSlice(at: .now)
    }

    /// Called on a turn's thread at the end of a slice: others come first, if any wait.
    func giveWay(_ turn: EvaluationTurn, of evaluation: Evaluation, at now: ContinuousClock.Instant) {
        let used = turn.endSlice(at: now)
        let processor = turn.processorTime
        if processor >= Limits.evaluationMoment { turn.worker.lower() }
        let isPaused = state.withLock { state in
            state.schedule.note(turn.id, processorNanoseconds: processor.wholeNanoseconds)
            guard state.schedule.waiting > 0 else {
                state.schedule.charge(turn.id, used.wholeNanoseconds)
                return false
            }
            state.schedule.pause(turn.id, usedNanoseconds: used.wholeNanoseconds)
            state.waiting[turn.id] = .toGoOn(turn.bell)
            return true
        }
        guard isPaused else { return }
        let goOn: @Sendable () -> Void = { [self] in wake(turn.id) }
        if !evaluation.wait(goOn) { goOn() }
        WorkerThread.atUsualPriority { [self] in
            evaluation.watchDeadline()
            dispatch()
        }
        turn.bell.wait()
        turn.beginSlice(at: .now)
    }

    /// Lets a paused turn whose evaluation has ended unwind, beside those that hold a place. Does nothing for
    /// a turn that is not paused.
    private func wake(_ id: UInt64) {
        let bell = state.withLock { state -> DispatchSemaphore? in
            guard case .toGoOn(let bell)? = state.waiting[id] else { return nil }
            state.waiting[id] = nil
            state.schedule.leave(id)
            return bell
        }
        bell?.signal()
    }
}

/// A turn that computes. Safe although unchecked: only the thread that runs it touches what changes.
final class EvaluationTurn: @unchecked Sendable {
    let id: UInt64
    let worker: Worker
    let isUrgent: Bool
    let bell = DispatchSemaphore(value: 0)
    private let begin: ContinuousClock.Instant
    private let beginProcessorTime: Duration
    /// The processor's time that its evaluation has left.
    private let limit: Duration?
    private var sliceBegin: ContinuousClock.Instant
    private(set) var sliceEnd: ContinuousClock.Instant
    /// The time of its finished slices.
    private(set) var computed = Duration.zero
    /// The time of its finished waits for a server, and the beginning of the present one.
    private var waited = Duration.zero
    private var waitBegin: ContinuousClock.Instant?

    init(_ id: UInt64, _ evaluation: Evaluation, _ worker: Worker, isUrgent: Bool) {
        self.id = id
        self.worker = worker
        self.isUrgent = isUrgent
        let earlier = evaluation.processorTime
        limit = evaluation.computingLimit.map { $0 - earlier }
        begin = .now
        beginProcessorTime = WorkerThread.processorTime
        sliceBegin = begin
        sliceEnd = begin + Limits.evaluationSlice
    }

    /// Returns whether it has computed for as long as it may: by the processor's time, since a busy machine
    /// is not its fault. Its own clock is asked first, which runs at least as fast and costs less.
    func isOver(at now: ContinuousClock.Instant) -> Bool {
        if isUrgent, now - begin >= Limits.urgentTurn {
            return now - begin >= Limits.urgentTurnByClock || used(at: now) >= Limits.urgentTurn
        }
        guard let limit else { return false }
        return computed(at: now) >= limit && processorTime >= limit
    }

    /// The time that its thread has had the processor since its beginning. Called on that thread.
    var processorTime: Duration { WorkerThread.processorTime - beginProcessorTime }

    func computed(at now: ContinuousClock.Instant) -> Duration { computed + (now - sliceBegin) }

    /// The processor's time and a server's that it has had. Called on its thread.
    func used(at now: ContinuousClock.Instant) -> Duration {
        processorTime + waited + (waitBegin.map { now - $0 } ?? .zero)
    }

    func beginWait(at now: ContinuousClock.Instant) { waitBegin = now }

    func endWait(at now: ContinuousClock.Instant) {
        if let waitBegin { waited += now - waitBegin }
        waitBegin = nil
    }

    func beginSlice(at now: ContinuousClock.Instant) {
        sliceBegin = now
        sliceEnd = now + Limits.evaluationSlice
    }

    /// Ends a slice and begins the next one; returns how long it took.
    func endSlice(at now: ContinuousClock.Instant) -> Duration {
        let used = now - sliceBegin
        computed += used
        beginSlice(at: now)
        return used
    }
}

/// A thread that runs one turn after the other. It retains no pool while it waits.
///
/// Safe although unchecked: `job` is handed over by the bell; `isLowered` is touched on the thread only,
/// after the beginning, and read by whoever that thread calls.
final class Worker: @unchecked Sendable {
    private let bell = DispatchSemaphore(value: 0)
    private var job: (@Sendable (Worker) -> Void)?
    private(set) var isLowered: Bool

    init(isLowered: Bool) {
        self.isLowered = isLowered
        WorkerThread.start("evaluation") { [self] in
            if isLowered { WorkerThread.lowerPriority() }
            while true {
                bell.wait()
                guard let job else { return }
                self.job = nil
                job(self)
            }
        }
    }

    /// Runs a job next. Only for a worker that has none.
    func take(_ job: @escaping @Sendable (Worker) -> Void) {
        self.job = job
        bell.signal()
    }

    /// Ends the thread after its job.
    func end() { bell.signal() }

    /// On its thread: lets all other work come first from now on.
    func lower() {
        guard !isLowered else { return }
        isLowered = true
        WorkerThread.lowerPriority()
    }
}

extension Duration {
    /// Whole nanoseconds, from 0.
    var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        return UInt64(max(0, seconds)) * 1_000_000_000 + UInt64(max(0, attoseconds)) / 1_000_000_000
    }
}
