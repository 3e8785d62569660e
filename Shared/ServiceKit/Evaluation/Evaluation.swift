import CRDT
import DQL
import Identity
import Machine
import Synchronization

/// One statement, or one subscription's matching, from its acceptance to its end. Its work runs in turns of
/// an `EvaluationPool`; the evaluator asks `interruption` now and then, and a long turn gives way there.
///
/// The lock guards what others may change or read: the reason to end. The rest of a running turn belongs to
/// its thread.
public final class Evaluation: Sendable {
    /// The reason why an evaluation ends before it is done.
    public enum End: Sendable, Equatable {
        /// Its time is over: it began so long ago, or has computed so long.
        case timeout
        /// The client is gone, and nobody wants the answer.
        case abandoned
        /// The same credential, or an operator, has cancelled it.
        case cancelled
        /// Its rows would have taken more memory than there is for its account.
        case refused(ServiceError)
    }

    /// The thing that is evaluated.
    public enum Kind: String, Sendable {
        /// A statement over HTTP.
        case statement
        /// A subscription of a sync session.
        case subscription
        /// A part of a stream's work, such as a page of changes.
        case stream
    }

    /// The purpose of an evaluation.
    public struct Purpose: Sendable {
        /// A statement or a subscription.
        public let kind: Kind
        /// The database.
        public let database: DatabaseID
        /// Its owner: see `Identity.credential`.
        public let credential: String
        /// The beginning of the statement, for the list of running ones.
        public let text: String

        /// A purpose of these parts.
        public init(_ kind: Kind, of credential: String, in database: DatabaseID, text: String = "") {
            self.kind = kind
            self.database = database
            self.credential = credential
            self.text = Self.shown(text)
        }

        fileprivate static func shown(_ text: String) -> String {
            let shown = text.prefix(Limits.shownStatementCharacters)
            return shown.utf8.count < text.utf8.count ? shown + "…" : text
        }
    }

    /// Its number, for the lists and for cancelling it.
    public let number: UInt64
    /// Its purpose.
    public let purpose: Purpose
    let deadline: ContinuousClock.Instant
    /// When it was accepted.
    public let begin = ContinuousClock.now
    let computingLimit: Duration?
    /// The memory of what it reads and makes, as long as it lives.
    public let held: ClientHold
    let pool: EvaluationPool

    private struct State {
        /// The beginning of its text, once that is known.
        var text: String?
        var end: End?
        var waiting: (@Sendable () -> Void)?
        /// The time of all turns before the present one, by the clock and of the processor.
        var computed = Duration.zero
        var processorTime = Duration.zero
        /// The last turn's time of the processor and of a server.
        var lastTurn = Duration.zero
        /// Nil while it has nothing large.
        var leavings: Leavings?
        /// Ends it at its deadline while it waits; nil while it never had to wait long.
        var alarm: Task<Void, Never>?
    }

    private let state = Mutex(State())
    private let isEnding = Atomic<Bool>(false)
    private let turnExpired = Atomic<Bool>(false)
    private let rows = Atomic<Int>(0)
    private let documents = Atomic<Int>(0)
    /// Bytes of gathered rows that are held.
    private let gathered = Atomic<Int>(0)
    /// Nodes of its long statements.
    private let nodes = Atomic<Int>(0)
    /// The turn that runs. Safe although unchecked: only its own thread touches it.
    nonisolated(unsafe) private var turn: EvaluationTurn?

    init(_ number: UInt64, _ purpose: Purpose, _ limits: EvaluationTimes, _ pool: EvaluationPool) {
        self.number = number
        self.purpose = purpose
        deadline = begin + (limits.total ?? .seconds(86_400))
        computingLimit = limits.computing
        held = ClientHold(Account(purpose.credential, in: purpose.database))
        self.pool = pool
    }

    /// The beginning of its statement, for the list of running ones.
    public var text: String { state.withLock { $0.text } ?? purpose.text }

    /// Names its statement, which was not read yet when it was accepted.
    public func name(_ text: String) {
        let shown = Purpose.shown(text)
        state.withLock { $0.text = shown }
    }

    /// Keeps something large that was made for it, such as a tree of many nodes, until it is finished. Then a
    /// turn lets go of it, as the credential: whoever holds the last reference frees all nodes, and that
    /// should not be a thread that serves everybody.
    public func leave(_ large: some Sendable) {
        let leavings = state.withLock { state in
            let leavings = state.leavings ?? Leavings(held)
            state.leavings = leavings
            return leavings
        }
        leavings.add(large)
    }

    /// The large things that it leaves; nil if there are none, or were taken.
    func takeLeavings() -> Leavings? {
        state.withLock { state in
            defer { state.leavings = nil }
            return state.leavings
        }
    }

    /// Charges the credential for processor time that it took outside of the pool's turns.
    public func charge(_ time: Duration) { pool.charge(time, to: purpose.credential) }

    /// Runs work in turns of the pool, on a thread that may block, and waits for it. One piece of work of an
    /// evaluation runs at a time.
    /// - Parameters:
    ///   - seats: what the work holds while it runs, besides a thread.
    ///   - isUrgent: others wait for the work; it comes first, never gives way, and ends as `timeout` after
    ///     `Limits.urgentTurn` (`hasTurnExpired` tells).
    /// - Throws: the errors of `body`; `DQL-0610` or `DQL-0611` if the evaluation has ended before it began.
    public func run<Result: Sendable>(
        on seats: EvaluationSeats? = nil, isUrgent: Bool = false,
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        turnExpired.store(false, ordering: .relaxed)
        return try await pool.run(self, seats: seats, isUrgent: isUrgent, body)
    }

    /// Runs work for which others may wait too, in a turn of its own, as the same credential: it goes on when
    /// this evaluation ends.
    public func apart<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await pool.subscription(of: purpose.credential, in: purpose.database, limit: nil).run(body)
    }

    /// True if the last urgent turn took longer than it may: its work is to be done another way.
    public var hasTurnExpired: Bool { turnExpired.load(ordering: .relaxed) }

    /// Why to stop; nil to go on. Called by the evaluator on the thread of a turn, which may wait here for
    /// others to have theirs.
    public func interruption() -> Interruption? {
        if let reason = ended() { return reason }
        guard let turn else { return nil }
        let now = ContinuousClock.now
        if now >= deadline {
            end(.timeout)
            return .timeout
        }
        if turn.isOver(at: now) {
            if turn.isUrgent { turnExpired.store(true, ordering: .relaxed) } else { end(.timeout) }
            return .timeout
        }
        guard now >= turn.sliceEnd, !turn.isUrgent else { return nil }
        pool.giveWay(turn, of: self, at: now)
        return ended()
    }

    /// Runs a body that waits for a server on the thread of a turn. Meanwhile the turn holds its thread and
    /// its seats, and no place among those who compute.
    /// - Parameter body: gets a check, which it asks now and then why to stop; nil means go on.
    public func waiting<Result>(
        _ body: (_ interruption: @escaping () -> Interruption?) throws -> Result
    ) rethrows -> Result {
        guard let turn else { return try body { self.ended() } }
        pool.leave(turn)
        defer { pool.comeBack(turn) }
        return try body { [self] in
            if let reason = ended() { return reason }
            let now = ContinuousClock.now
            if now >= deadline {
                end(.timeout)
                return .timeout
            }
            guard turn.isUrgent, turn.isOver(at: now) else { return nil }
            turnExpired.store(true, ordering: .relaxed)
            return .timeout
        }
    }

    private func ended() -> Interruption? {
        guard isEnding.load(ordering: .relaxed) else { return nil }
        return end == .timeout ? .timeout : .cancelled
    }

    /// Ends it at its next check, or at once if it waits for its first turn. The first reason counts.
    public func end(_ reason: End) {
        let waiting = state.withLock { state in
            if state.end == nil { state.end = reason }
            defer { state.waiting = nil }
            return state.waiting
        }
        isEnding.store(true, ordering: .relaxed)
        waiting?()
    }

    /// Calls `body` once when it is ended, at once if it has been; replaces what was to be called before.
    public func whenEnded(_ body: @escaping @Sendable () -> Void) {
        if !wait(body) { body() }
    }

    /// Waits until its limit, and ends it then.
    /// - Throws: `CancellationError` when the task is cancelled before.
    public func endAtDeadline() async throws {
        try await Task.sleep(until: deadline, clock: .continuous)
        end(.timeout)
    }

    /// Waits for work that it shares with others, and that goes on without it: until the work is done, or
    /// this evaluation is ended, also by its limit.
    /// - Returns: false if it was ended first.
    /// - Throws: the errors of the work.
    public func waits(for work: @escaping @Sendable () async throws -> Void) async throws -> Bool {
        let deadline = Task { try await endAtDeadline() }
        defer { deadline.cancel() }
        let first = PendingAnswer<Swift.Result<Bool, any Error>>()
        whenEnded { first.give(.success(false)) }
        Task {
            do {
                try await work()
                first.give(.success(true))
            } catch {
                first.give(.failure(error))
            }
        }
        return try await first.get()
    }

    /// The reason why it has been ended; nil if it was not.
    public var end: End? { state.withLock { $0.end } }

    /// Holds memory for the rows that it has gathered, in bytes, as an evaluator counts them now and then.
    /// Where there is none, it ends.
    public func holds(rows bytes: Int) {
        do {
            let noted = gathered.load(ordering: .relaxed)
            guard bytes > noted else { return }
            try held.grow(by: bytes - noted)
            gathered.store(bytes, ordering: .relaxed)
        } catch {
            end(.refused(error))
        }
    }

    /// Counts a node of a long statement that is prepared, and holds the memory of many together. Where there
    /// is none, it ends.
    /// - Returns: as `interruption`.
    public func prepareNode() -> Interruption? {
        if nodes.add(1, ordering: .relaxed).newValue % Limits.countedNodes == 0 {
            do {
                try held.grow(by: Limits.countedNodes * Limits.nodeBytes)
            } catch {
                end(.refused(error))
            }
        }
        return interruption()
    }

    /// The memory of the long statements that it has prepared, approximately.
    public var preparedBytes: Int { nodes.load(ordering: .relaxed) * Limits.nodeBytes }

    /// Counts one row of the result, for the list of running statements.
    public func countRow() { rows.add(1, ordering: .relaxed) }

    /// Counts documents that it has visited.
    public func count(documents count: Int) { documents.add(count, ordering: .relaxed) }

    /// The documents visited by what has ended of it.
    public var countedDocuments: Int { documents.load(ordering: .relaxed) }

    /// The time that its turns before the present one have computed.
    public var computed: Duration { state.withLock { $0.computed } }

    /// The processor's time that its turns before the present one have had.
    public var processorTime: Duration { state.withLock { $0.processorTime } }

    /// The time of the processor, and of a server, that its last turn has had.
    public var lastTurn: Duration { state.withLock { $0.lastTurn } }

    /// On the thread of a turn: the same of this turn so far. On a thread without a turn: the processor's
    /// time that it has had.
    public var turnUsed: Duration { turn?.used(at: .now) ?? WorkerThread.processorTime }

    /// On the thread of a turn: the time that it has computed so far, waiting for others not counted.
    public var turnComputed: Duration { turn?.computed(at: .now) ?? .zero }

    /// On the thread of a turn: the processor's time that it has had so far.
    public var turnProcessorTime: Duration { turn?.processorTime ?? .zero }

    /// The rows counted so far.
    public var countedRows: Int { rows.load(ordering: .relaxed) }

    // MARK: Called by the pool

    /// Notes how to take it out of the queue; returns false if it has ended already.
    func wait(_ withdraw: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.end == nil { state.waiting = withdraw }
            return state.end == nil
        }
    }

    /// Ends it at its deadline even if it waits then, until its turn ends. Does nothing for one that does not
    /// wait any more: an alarm after its last turn would keep it, and its memory, until then.
    func watchDeadline() {
        state.withLock { state in
            guard state.alarm == nil, state.waiting != nil else { return }
            state.alarm = Task { [weak self] in try? await self?.endAtDeadline() }
        }
    }

    /// Called on the turn's thread at its beginning and, with nil, at its end.
    func setTurn(_ turn: EvaluationTurn?, after ended: EvaluationTurn? = nil) {
        self.turn = turn
        let times = ended.map { ($0.computed, $0.processorTime, $0.used(at: .now)) }
        state.withLock { state in
            state.waiting = nil
            guard let times else { return }
            state.computed += times.0
            state.processorTime += times.1
            state.lastTurn = times.2
            state.alarm?.cancel()
            state.alarm = nil
        }
    }
}

/// The times of an evaluation.
public struct EvaluationTimes: Sendable {
    /// From its acceptance to its end, waiting included; nil without such a limit.
    public var total: Duration?
    /// How long it may have the processor in all; nil if only the total counts.
    public var computing: Duration?

    /// Times of an evaluation.
    public init(total: Duration?, computing: Duration? = nil) {
        self.total = total
        self.computing = computing
    }
}

extension Identity {
    /// The owner of an evaluation: the API key, or the user with all devices.
    public var credential: String {
        if signedBy == nil, let tokenID { return "api-key:\(tokenID)" }
        return "user:\(userID)"
    }
}
