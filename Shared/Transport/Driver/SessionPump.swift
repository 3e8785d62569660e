import CRDT
import Exchange
import Logging
import Sync
import Synchronization

/// Holds a session on the heap: it is large, and would otherwise lie in the frame of every function that
/// waits for it.
///
/// Safe although unchecked: only the code that runs it for the pump touches it, one event at a time.
public final class LiveSession: @unchecked Sendable {
    fileprivate var session: Session
    /// So much of a message under way is kept at the store.
    fileprivate var kept: Int

    /// Holds this session, which has not begun.
    public init(_ session: Session) {
        self.session = session
        kept = session.partial?.count ?? 0
    }

    fileprivate var partialCount: Int { session.partial?.count ?? 0 }
}

/// Binds a session to a connection and a store, until either ends.
///
/// It has no task while idle: the first waiting event starts a task, which hands the session one event
/// after the other until none is left. So an idle session costs only its state. An event of the live stream
/// is handled where it is announced (`SessionStore.follow`), or where frames are written, if that is short
/// (decision 0036), and a short frame where it arrives (0040).
///
/// Invariants: events reach the session one at a time, in order of delivery; frames are sent in the
/// session's order; the next frame is taken only after the previous one was handled. The session's credit
/// bounds the waiting frames, and `Limits.unsentBytes` ends a session whose other side asks and does not
/// read: reading never waits for writing, so two full sockets cannot block each other. When the end is
/// reported, no action is under way. `state` guards the running flag and the queue; it is never held across
/// another lock or a wait.
public final class SessionPump: Sendable {
    private struct Course: Sendable {
        let session: LiveSession
        let line: any SessionLine
        let whenEnded: @Sendable (SyncError) -> Void
    }

    private struct State {
        var inbox = Inbox()
        /// Nil before it has begun, and when it is over.
        var course: Course?
        var isOver = false
        /// Whether somebody hands events to the session.
        var isRunning = false
        var performing: [(id: UInt64, task: Task<Void, Never>)] = []
        var lastAction: UInt64 = 0
    }

    private let state = Mutex(State())
    /// Bytes of frames that wait to leave.
    private let unsent = Atomic<Int>(0)
    /// As the session said last: bytes that wait for the other side's credit, and subscriptions of the other
    /// side that are not live.
    private let unpermitted = Atomic<Int>(0)
    private let catchingUp = Atomic<Int>(0)
    private let store: any SessionStore
    private let logger: Logger

    /// Why a session ended that neither side has ended.
    static let lost = SyncError(.unavailable, "the connection was lost")

    /// Bytes of frames that were handed to the line and are not sent yet.
    public var unsentBytes: Int { unsent.load(ordering: .relaxed) }

    /// The session's backlog, for its supervisor.
    public struct Load: Sendable {
        /// Bytes of frames that wait for the line or for the other side's credit.
        public let bytes: Int
        /// Subscriptions of the other side that are catching up.
        public let catchingUp: Int
    }

    /// The load as of the last event.
    public var load: Load {
        Load(
            bytes: unsentBytes + unpermitted.load(ordering: .relaxed),
            catchingUp: catchingUp.load(ordering: .relaxed))
    }

    /// A pump that performs actions on `store`.
    public init(store: any SessionStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    /// Delivers an event from outside to the session: a new subscription, an own commit, a request to end.
    /// Only queues it, so it may be called under a lock.
    public func deliver(_ event: Event) { enqueue { $0.put(event) } }

    /// Runs the session over an open connection to its end, and returns the reason.
    public func run(_ session: Session, over connection: some SessionConnection) async -> SyncError {
        await run(session, over: TaskedLine(connection))
    }

    /// The same over a line. A cancelled session says that it is going away.
    public func run(_ session: Session, over line: some SessionLine) async -> SyncError {
        await withTaskCancellationHandler {
            await withCheckedContinuation { ended in
                begin(LiveSession(session), over: line) { ended.resume(returning: $0) }
            }
        } onCancel: {
            deliver(.finish(SyncError(.goingAway, "this side is stopping")))
        }
    }

    /// Starts the session over an open line; reports the reason of its end once all its actions have ended.
    public func begin(
        _ session: LiveSession, over line: some SessionLine,
        whenEnded: @escaping @Sendable (SyncError) -> Void
    ) {
        let course = Course(session: session, line: line, whenEnded: whenEnded)
        state.withLock { state in
            precondition(state.course == nil && !state.isOver, "a pump runs one session")
            state.course = course
            state.isRunning = true
        }
        let end = handle([.opened], course)
        line.begin { [self] arrival in
            switch arrival {
            case .frame(let bytes, let taken): arrived(bytes, taken)
            case .ended: enqueue { $0.put(.disconnected) }
            }
        }
        goOn(course, end)
    }

    // MARK: Events

    private func enqueue(orElse refuse: () -> Void = {}, _ put: (inout Inbox) -> Void) {
        let (isTaken, course) = state.withLock { state -> (Bool, Course?) in
            guard !state.isOver else { return (false, nil) }
            put(&state.inbox)
            guard !state.isRunning, let course = state.course else { return (true, nil) }
            state.isRunning = true
            return (true, course)
        }
        if !isTaken { refuse() }
        if let course { Task { await work(course) } }
    }

    /// Hands the session a frame: where it has come in, if it is short and of a kind that takes no longer
    /// than to wake a task for it, unless it belongs to a message in parts (`work` keeps those).
    private func arrived(_ frame: [UInt8], _ taken: @escaping @Sendable () -> Void) {
        if frame.count <= Limits.promptBytes, Frame.isPrompt(frame), let course = claim() {
            guard course.session.partialCount == 0 else {
                state.withLock { $0.inbox.put(frame: frame, handled: taken) }
                return goOn(course, nil)
            }
            let end = handle([.frame(frame)], course)
            taken()
            return goOn(course, end)
        }
        enqueue(orElse: taken) { $0.put(frame: frame, handled: taken) }
    }

    /// Hands the session an event of the live stream: near the line, if it is soon handled. Else a task of
    /// the session's own does it: the caller has others to tell, and what this session asks for is its own
    /// matter.
    private func tell(_ event: Event, _ line: any SessionLine) {
        guard event.isShort else { return deliver(event) }
        let isIdle = state.withLock { !$0.isOver && !$0.isRunning && $0.inbox.isEmpty }
        guard isIdle else { return deliver(event) }
        line.nearby { self.deliverNow(event) }
    }

    /// Makes the caller the one who runs the session, unless somebody does, an event waits, or a frame has
    /// not left: what is posted where frames are written would overtake it.
    private func claim() -> Course? {
        state.withLock { state in
            guard !state.isOver, !state.isRunning, state.inbox.isEmpty, unsentBytes == 0 else { return nil }
            state.isRunning = state.course != nil
            return state.course
        }
    }

    /// Hands the session an event here and now, if it may be.
    private func deliverNow(_ event: Event) {
        guard let course = claim() else { return deliver(event) }
        goOn(course, handle([event], course))
    }

    /// Behind events that were handled outside of `work`: lets it do the rest, if there is any.
    private func goOn(_ course: Course, _ end: SyncError?) {
        if let end {
            Task { await self.end(course, end) }
        } else if !stops() {
            Task { await work(course) }
        }
    }

    /// Whether nothing waits: then nobody runs the session any more.
    private func stops() -> Bool {
        state.withLock { state in
            if state.inbox.isEmpty { state.isRunning = false }
            return !state.isRunning
        }
    }

    private func work(_ course: Course) async {
        let live = course.session
        while !stops() {
            guard let item = state.withLock({ $0.inbox.next() }) else { continue }
            let events = item.events
            let end =
                store.mayTakeLong(events)
                ? await store.handle { self.handle(events, course) } : handle(events, course)
            // A connection that has broken may be noticed here after the next one has begun. (Not with each
            // chunk: what is kept is copied when more comes.)
            let partial = live.partialCount
            if partial < live.kept || partial - live.kept >= max(Limits.keptStepBytes, live.kept / 32) {
                live.kept = partial
                await store.keep(live.session.partial)
            }
            item.handled?()
            if let end { return await self.end(course, end) }
        }
    }

    /// Hands the session events; returns why it ends, if it does.
    private func handle(_ events: [Event], _ course: Course) -> SyncError? {
        let live = course.session
        var events = events
        var handled = 0
        while handled < events.count {
            let event = events[handled]
            handled += 1
            if let end = start(live.session.receive(event), course, &events) { return end }
        }
        if unsentBytes > Limits.unsentBytes {
            let reason = SyncError(.unavailable, "the other side does not read what it asked for")
            if let end = start(live.session.receive(.finish(reason)), course, &events) { return end }
        }
        let standing = live.session.standing()
        unpermitted.store(standing.waitingBytes, ordering: .relaxed)
        catchingUp.store(standing.catchingUp, ordering: .relaxed)
        return standing.isClosed ? Self.lost : nil
    }

    private func end(_ course: Course, _ reason: SyncError) async {
        if course.session.partialCount != course.session.kept {
            await store.keep(course.session.session.partial)
        }
        let (waiting, performing) = state.withLock { state in
            defer {
                state.inbox = Inbox()
                state.performing = []
                state.course = nil
            }
            state.isOver = true
            return (state.inbox, state.performing)
        }
        var rest = waiting
        while let item = rest.next() { item.handled?() }
        for (_, task) in performing { task.cancel() }
        await course.line.end(code: reason.closeCode, reason: reason.code)
        for (_, task) in performing { await task.value }
        course.whenEnded(reason)
    }

    // MARK: Actions

    /// Sends what is to be sent, starts the rest; returns why the session ends, if it does. Answers that are
    /// at hand come behind the events.
    private func start(_ actions: [Action], _ course: Course, _ events: inout [Event]) -> SyncError? {
        var end: SyncError?
        for action in actions {
            switch action {
            case .send(let frame): send(frame, course)
            case .close(let error): end = error
            case .awaitOperations(let offset) where unsentBytes <= Limits.unsentPauseBytes:
                if !follow(after: offset, course.line) { perform(action, course.line) }
            default:
                if let answer = store.ready(action) {
                    events.append(answer)
                } else {
                    perform(action, course.line)
                }
            }
        }
        return end
    }

    /// Has the session told of the live stream, where it is told without a task; false where it is not.
    private func follow(after offset: Offset, _ line: any SessionLine) -> Bool {
        store.follow(after: offset) { self.tell($0, line) }
    }

    private func send(_ frame: [UInt8], _ course: Course) {
        unsent.add(frame.count, ordering: .relaxed)
        course.line.post(frame) { [self, count = frame.count] isSent in
            unsent.subtract(count, ordering: .relaxed)
            if !isSent { deliver(.disconnected) }
        }
    }

    private func perform(_ action: Action, _ line: any SessionLine) {
        state.withLock { state in
            guard !state.isOver else { return }
            state.lastAction += 1
            let id = state.lastAction
            let task = Task {
                await self.performed(action, line)
                self.state.withLock { state in
                    state.performing.removeAll { $0.id == id }
                    // An idle session keeps no room for what it did.
                    if state.performing.isEmpty { state.performing = [] }
                }
            }
            state.performing.append((id, task))
        }
    }

    private func performed(_ action: Action, _ line: any SessionLine) async {
        do {
            if action.bringsMuch {
                while unsentBytes > Limits.unsentPauseBytes {
                    try await Task.sleep(for: Limits.unsentPause)
                }
            }
            if case .awaitOperations(let offset) = action, follow(after: offset, line) { return }
            if let answer = try await store.perform(action) { deliver(answer) }
        } catch is CancellationError {
            return
        } catch {
            logger.error("a session's action failed", metadata: ["error": "\(error)"])
            deliver(.failed("\(error)"))
        }
    }
}

extension Action {
    /// Whether what it reads is for the other side, and large.
    fileprivate var bringsMuch: Bool {
        switch self {
        case .readStates, .readPage, .awaitOperations: true
        default: false
        }
    }
}

extension Event {
    /// Whether a session handles this in some microseconds: little to send, nothing to evaluate.
    fileprivate var isShort: Bool {
        guard case .operations(let operations, _) = self else { return true }
        var bytes = 0
        var changes = 0
        for change in operations.lazy.flatMap(\.changes) {
            guard let matches = change.matches, matches.undecided.isEmpty else { return false }
            bytes += change.after.count
            changes += 1
            guard bytes <= Limits.shortBytes, changes <= Limits.shortChanges else { return false }
        }
        return true
    }
}

extension SyncError {
    /// The WebSocket close code that goes with the reason (RFC 6455 section 7.4).
    var closeCode: UInt16 {
        switch SyncErrorCode(rawValue: code) {
        case .goingAway, .expired: 1001
        case .frameTooLarge: 1009
        case .unavailable, .damaged: 1011
        case .malformedFrame, .unknownMessage, .unexpectedMessage, .creditExceeded, .versionMismatch: 1002
        default: 1008
        }
    }
}
