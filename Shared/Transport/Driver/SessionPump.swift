import Exchange
import Logging
import Machine
import Sync

/// Holds a session on the heap: it is large, and would otherwise lie in the frame of every function that
/// waits for it.
///
/// Safe although unchecked: only the one who runs it for the pump touches it, one event at a time.
public final class LiveSession: @unchecked Sendable {
    var session: Session
    /// So much of a message under way is kept at the store.
    private(set) var kept: Int

    /// Holds this session, which has not begun.
    public init(_ session: Session) {
        self.session = session
        kept = session.partial?.count ?? 0
    }

    /// The bytes of a message under way.
    var partialCount: Int { session.partial?.count ?? 0 }

    /// The message under way, to be kept at the store.
    func takePartial() -> PartialMessage? {
        kept = partialCount
        return session.partial
    }
}

/// Binds a session to a channel and a store, until either ends.
///
/// It has no task while idle: the first waiting event starts a task, which hands the session one event
/// after the other until none is left. So an idle session costs only its state. An event reaches the session
/// in one of four ways, each with its rule:
///
/// - An event from outside waits in the inbox (`deliver`).
/// - A short frame is handled where it arrives (decision 0040).
/// - An event of the live stream is handled where frames are written, or where it is announced
///   (`SessionStore.follow`), if that is short (decision 0036).
/// - An answer that is at hand follows the event that asked for it (`SessionStore.ready`).
///
/// Invariants: events reach the session one at a time, in order of delivery; frames are sent in the
/// session's order; the next frame is taken only after the previous one was handled. The session's credit
/// bounds the waiting frames, and `Limits.unsentBytes` ends a session whose other side asks and does not
/// read: reading never waits for writing, so two full sockets cannot block each other. When the end is
/// reported, no action is under way.
///
/// This is the face; `PumpStorage` has the lock and does the work, `PumpMachine` the states.
public final class SessionPump: Sendable {
    private let storage: PumpStorage

    /// The reason of a session's end that neither side has ended.
    static let lost = SyncError(.unavailable, "the connection was lost")

    /// Bytes of frames that were handed to the channel and are not sent yet.
    public var unsentBytes: Int { storage.unsentBytes }

    /// The session's backlog, for its supervisor.
    public struct Load: Sendable {
        /// Bytes of frames that wait for the channel or for the other side's credit.
        public let bytes: Int
        /// Subscriptions of the other side that are catching up.
        public let catchingUp: Int
    }

    /// The load as of the last event.
    public var load: Load { storage.load }

    /// A pump that performs actions on `store`.
    public init(store: any SessionStore, logger: Logger) {
        storage = PumpStorage(store: store, logger: logger)
    }

    /// Delivers an event from outside to the session: a new subscription, an own commit, a request to end.
    /// Only queues it, so it may be called under a lock.
    public func deliver(_ event: Event) { storage.deliver(event) }

    /// Runs the session over an open channel to its end, and returns the reason. A cancelled session says
    /// that it is going away.
    public func run(_ session: Session, over channel: some FrameChannel) async -> SyncError {
        let ended = PendingAnswer<SyncError>()
        return await withTaskCancellationHandler {
            begin(LiveSession(session), over: channel) { ended.give($0) }
            return await ended.value()
        } onCancel: {
            deliver(.finish(SyncError(.goingAway, "this side is stopping")))
        }
    }

    /// Starts the session over an open channel; reports the reason of its end once all its actions have
    /// ended.
    public func begin(
        _ session: LiveSession, over channel: some FrameChannel,
        whenEnded: @escaping @Sendable (SyncError) -> Void
    ) {
        storage.begin(PumpStorage.Run(session: session, channel: channel, whenEnded: whenEnded))
    }
}
