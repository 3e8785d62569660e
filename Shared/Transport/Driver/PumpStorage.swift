import CRDT
import Exchange
import Logging
import Machine
import Sync
import Synchronization

/// The working part of a pump: brings events to the session as `PumpMachine` decides, sends its frames and
/// has its actions performed.
///
/// `machine` is never locked across another lock or a wait. The one who runs the session (`Run`) has it to
/// himself until he gives it back.
final class PumpStorage: Sendable {
    /// A session that has begun.
    struct Run: Sendable {
        let session: LiveSession
        let channel: any FrameChannel
        let whenEnded: @Sendable (SyncError) -> Void
    }

    private let machine = Mutex(PumpMachine<Run>())
    /// Bytes of frames that wait to leave.
    private let unsent = Atomic<Int>(0)
    /// As the session said last: bytes that wait for the other side's credit, and subscriptions of the other
    /// side that are not live.
    private let unpermitted = Atomic<Int>(0)
    private let catchingUp = Atomic<Int>(0)
    private let store: any SessionStore
    private let logger: Logger

    init(store: any SessionStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    var unsentBytes: Int { unsent.load(ordering: .relaxed) }

    var load: SessionPump.Load {
        SessionPump.Load(
            bytes: unsentBytes + unpermitted.load(ordering: .relaxed),
            catchingUp: catchingUp.load(ordering: .relaxed))
    }

    // MARK: Events

    func begin(_ run: Run) {
        machine.withLock { $0.begin(run) }
        let end = handle([.opened], run)
        run.channel.begin { [self] arrival in
            switch arrival {
            case .frame(let bytes, let taken): arrived(bytes, taken)
            case .ended: enqueue { $0.put(.disconnected) }
            }
        }
        giveBack(run, end)
    }

    func deliver(_ event: Event) { enqueue { $0.put(event) } }

    private func enqueue(orElse refuse: () -> Void = {}, _ put: (inout Inbox) -> Void) {
        switch machine.withLock({ $0.put(put) }) {
        case .waits: break
        case .wakes(let run): Task { await work(run) }
        case .refused: refuse()
        }
    }

    /// Hands the session a frame: where it has come in, if it is short and of a kind that takes no longer
    /// than to wake a task for it, unless it belongs to a message in parts (`work` keeps those).
    private func arrived(_ frame: [UInt8], _ taken: @escaping @Sendable () -> Void) {
        if frame.count <= Limits.cheapFrameBytes, Session.isCheap(frame: frame), let run = claim() {
            guard run.session.partialCount == 0 else {
                machine.withLock { $0.putBack(frame: frame, handled: taken) }
                return giveBack(run, nil)
            }
            let end = handle([.frame(frame)], run)
            taken()
            return giveBack(run, end)
        }
        enqueue(orElse: taken) { $0.put(frame: frame, handled: taken) }
    }

    /// Hands the session an event of the live stream: near the channel, if it is soon handled. Else a task of
    /// the session's own does it: the caller has others to tell, and an answer that takes long is the
    /// session's own matter.
    private func tell(_ event: Event, _ channel: any FrameChannel) {
        guard event.isShort, machine.withLock({ $0.isIdle }) else { return deliver(event) }
        channel.nearby { self.deliverNow(event) }
    }

    /// Makes the caller run the session, unless somebody does, an event waits, or a frame has not left: what
    /// is posted where frames are written would overtake it.
    private func claim() -> Run? {
        machine.withLock { unsentBytes == 0 ? $0.claim() : nil }
    }

    /// Hands the session an event here and now, if it may be.
    private func deliverNow(_ event: Event) {
        guard let run = claim() else { return deliver(event) }
        giveBack(run, handle([event], run))
    }

    /// Gives the session back after events that were handled outside of `work`, which does the rest.
    private func giveBack(_ run: Run, _ end: SyncError?) {
        if let end {
            Task { await self.end(run, end) }
        } else if machine.withLock({ $0.goesOn() }) {
            Task { await work(run) }
        }
    }

    private func work(_ run: Run) async {
        let live = run.session
        while let item = machine.withLock({ $0.next() }) {
            let events = item.events
            let end =
                store.mayTakeLong(events)
                ? await store.handle { self.handle(events, run) } : handle(events, run)
            // A connection that has broken may be noticed here after the next one has begun. (Not with each
            // chunk: what is kept is copied when more comes.)
            let partial = live.partialCount
            if partial < live.kept || partial - live.kept >= max(Limits.keptStepBytes, live.kept / 32) {
                await store.keep(live.takePartial())
            }
            item.handled?()
            if let end { return await self.end(run, end) }
        }
    }

    /// Hands the session events; returns the reason of its end, if it ends.
    private func handle(_ events: [Event], _ run: Run) -> SyncError? {
        let live = run.session
        var events = events
        var handled = 0
        while handled < events.count {
            let event = events[handled]
            handled += 1
            if let end = start(live.session.receive(event), run, &events) { return end }
        }
        if unsentBytes > Limits.unsentBytes {
            let reason = SyncError(.unavailable, "the other side does not read what it asked for")
            if let end = start(live.session.receive(.finish(reason)), run, &events) { return end }
        }
        let standing = live.session.standing()
        unpermitted.store(standing.waitingBytes, ordering: .relaxed)
        catchingUp.store(standing.catchingUp, ordering: .relaxed)
        return standing.isClosed ? SessionPump.lost : nil
    }

    private func end(_ run: Run, _ reason: SyncError) async {
        if run.session.partialCount != run.session.kept { await store.keep(run.session.takePartial()) }
        let (waiting, performing) = machine.withLock { $0.end() }
        var rest = waiting
        while let item = rest.next() { item.handled?() }
        for task in performing { task.cancel() }
        await run.channel.end(code: reason.closeCode, reason: reason.code)
        for task in performing { await task.value }
        run.whenEnded(reason)
    }

    // MARK: Actions

    /// Sends what is to be sent, starts the rest; returns the reason of the session's end, if it ends.
    /// Answers that are at hand follow the events.
    private func start(_ actions: [Action], _ run: Run, _ events: inout [Event]) -> SyncError? {
        var end: SyncError?
        for action in actions {
            switch action {
            case .send(let frame): send(frame, run)
            case .close(let error): end = error
            case .awaitOperations(let offset) where unsentBytes <= Limits.unsentPauseBytes:
                if !follow(after: offset, run.channel) { perform(action, run.channel) }
            default:
                if let answers = store.ready(action) {
                    events += answers
                } else {
                    perform(action, run.channel)
                }
            }
        }
        return end
    }

    /// Has the session told of the live stream, where it is told without a task; false where it is not.
    private func follow(after offset: Offset, _ channel: any FrameChannel) -> Bool {
        store.follow(after: offset) { self.tell($0, channel) }
    }

    private func send(_ frame: [UInt8], _ run: Run) {
        unsent.add(frame.count, ordering: .relaxed)
        run.channel.post(frame) { [self, count = frame.count] isSent in
            unsent.subtract(count, ordering: .relaxed)
            if !isSent { deliver(.disconnected) }
        }
    }

    private func perform(_ action: Action, _ channel: any FrameChannel) {
        machine.withLock { machine in
            machine.perform { id in
                Task {
                    await self.performed(action, channel)
                    self.machine.withLock { $0.performed(id) }
                }
            }
        }
    }

    private func performed(_ action: Action, _ channel: any FrameChannel) async {
        do {
            if action.bringsMuch {
                while unsentBytes > Limits.unsentPauseBytes {
                    try await Alarm.sleep(for: Limits.unsentPause)
                }
            }
            if case .awaitOperations(let offset) = action, follow(after: offset, channel) { return }
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
    /// True if it reads much for the other side.
    fileprivate var bringsMuch: Bool {
        switch self {
        case .readStates, .readPage, .awaitOperations: true
        default: false
        }
    }
}

extension Event {
    /// True if a session handles this in some microseconds: little to send, nothing to evaluate.
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
