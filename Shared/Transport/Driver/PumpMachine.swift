import Sync

/// The states of a pump: the events that wait, the actions under way, and whether somebody hands events to
/// the session. It does nothing itself; `PumpStorage` does what it decides.
///
/// Invariant: one caller at a time runs the session: `begin`, `put` and `claim` hand out the run to one, and
/// it is his until `next` finds nothing, or `end`.
struct PumpMachine<Run: Sendable> {
    private enum State {
        /// Not begun: events wait for the session.
        case ready
        /// Nobody runs the session; the next event wakes it.
        case idle(Run)
        /// Somebody hands the session events.
        case running(Run)
        /// Actions are being ended; events are refused.
        case over
    }

    private var state = State.ready
    private var inbox = Inbox()
    private var performing: [(id: UInt64, task: Task<Void, Never>)] = []
    private var lastAction: UInt64 = 0

    /// The fate of an event.
    enum Put {
        /// It waits for the one who runs the session, or for the beginning.
        case waits
        /// The caller has to run the session.
        case wakes(Run)
        /// It comes too late.
        case refused
    }

    /// The name of the state, for traps.
    var name: String {
        switch state {
        case .ready: "ready"
        case .idle: "idle"
        case .running: "running"
        case .over: "over"
        }
    }

    /// True if the session rests and no event waits.
    var isIdle: Bool { if case .idle = state { inbox.isEmpty } else { false } }

    /// The session begins; the caller runs it.
    mutating func begin(_ run: Run) {
        guard case .ready = state else { preconditionFailure("a pump runs one session; it is \(name)") }
        state = .running(run)
    }

    /// Puts an event after those that wait.
    mutating func put(_ put: (inout Inbox) -> Void) -> Put {
        switch state {
        case .over: return .refused
        case .ready, .running:
            put(&inbox)
            return .waits
        case .idle(let run):
            put(&inbox)
            state = .running(run)
            return .wakes(run)
        }
    }

    /// Makes the caller run the session, for an event that it hands over here and now; nil if somebody does,
    /// or an event waits.
    mutating func claim() -> Run? {
        guard case .idle(let run) = state, inbox.isEmpty else { return nil }
        state = .running(run)
        return run
    }

    /// Puts a frame back that the one who runs the session could not hand over here and now.
    mutating func putBack(frame: [UInt8], handled: @escaping @Sendable () -> Void) {
        guard case .running = state else {
            preconditionFailure("a frame is put back while the pump is \(name)")
        }
        inbox.put(frame: frame, handled: handled)
    }

    /// The next event for the one who runs the session; nil if none waits: then nobody runs it any more.
    mutating func next() -> Inbox.Item? {
        guard case .running(let run) = state else {
            preconditionFailure("an event is taken while the pump is \(name)")
        }
        if let item = inbox.next() { return item }
        state = .idle(run)
        return nil
    }

    /// Ends a run of events that were handed over outside a task; true if more wait, and the run goes on.
    mutating func goesOn() -> Bool {
        guard case .running(let run) = state else {
            preconditionFailure("a run ends while the pump is \(name)")
        }
        guard inbox.isEmpty else { return true }
        state = .idle(run)
        return false
    }

    /// The session has ended: hands out the events that wait, and the actions under way.
    mutating func end() -> (waiting: Inbox, performing: [Task<Void, Never>]) {
        guard case .running = state else { preconditionFailure("a session ends while its pump is \(name)") }
        state = .over
        defer {
            inbox = Inbox()
            performing = []
        }
        return (inbox, performing.map(\.task))
    }

    /// Notes an action under way, unless the session has ended; `start` begins it under its number.
    mutating func perform(_ start: (UInt64) -> Task<Void, Never>) {
        if case .over = state { return }
        lastAction += 1
        performing.append((lastAction, start(lastAction)))
    }

    /// An action has ended.
    mutating func performed(_ id: UInt64) {
        performing.removeAll { $0.id == id }
        // An idle session keeps no room for what it did.
        if performing.isEmpty { performing = [] }
    }
}
