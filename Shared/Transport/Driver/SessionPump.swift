import Logging
import Sync
import Synchronization

/// A session in a place of its own: it is large, and would lie in the frame of everything that waits for it.
///
/// Safe although unchecked: only the pump that runs it touches it, one event at a time.
public final class LiveSession: @unchecked Sendable {
    fileprivate var session: Session

    /// A place for this session, which has not begun.
    public init(_ session: Session) { self.session = session }
}

/// Binds a session to a connection and a store, until either ends.
///
/// Invariants: events reach the session one at a time; frames leave in the order the session gave them; the
/// socket is read only after the frame before was handled. Frames waiting to leave are bounded by the
/// session's credit, and `Limits.unsentBytes` ends a session whose other side asks and does not read:
/// reading never waits for writing, so two full sockets cannot hold each other up.
public final class SessionPump: Sendable {
    private let inbox = Inbox()
    /// Bytes of frames that wait to leave.
    private let unsent = Atomic<Int>(0)
    private let store: any SessionStore
    private let logger: Logger

    /// Why a session ended that neither side has ended.
    static let lost = SyncError(.unavailable, "the connection was lost")

    /// Bytes of frames that wait to leave, for whoever looks after it.
    public var unsentBytes: Int { unsent.load(ordering: .relaxed) }

    /// A pump that performs actions on `store`.
    public init(store: any SessionStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    /// Hands an event to the session from outside: a new subscription, an own commit, the wish to end.
    public func deliver(_ event: Event) { inbox.put(event) }

    /// Runs the session over an open connection to its end, and says why it ended.
    public func run(_ session: Session, over connection: some SessionConnection) async -> SyncError {
        await run(LiveSession(session), over: connection)
    }

    /// The same, for one that is in its place already: an idle session costs thousands of bytes less.
    public func run(_ session: LiveSession, over connection: some SessionConnection) async -> SyncError {
        let (frames, output) = AsyncStream.makeStream(of: [UInt8].self)
        return await withDiscardingTaskGroup(returning: SyncError.self) { group in
            group.addTask { await self.read(connection) }
            let writer = Task {
                do {
                    for await frame in frames {
                        try await connection.send(frame)
                        self.unsent.subtract(frame.count, ordering: .relaxed)
                    }
                } catch {
                    self.deliver(.disconnected)
                }
            }
            let reason = await withTaskCancellationHandler {
                await loop(session, output, &group)
            } onCancel: {
                self.deliver(.finish(SyncError(.goingAway, "this side is stopping")))
            }
            output.finish()
            await finish(writer)
            inbox.close()
            connection.close(code: reason.closeCode, reason: reason.code)
            group.cancelAll()
            return reason
        }
    }

    private func loop(
        _ live: LiveSession, _ output: AsyncStream<[UInt8]>.Continuation, _ group: inout DiscardingTaskGroup
    ) async -> SyncError {
        var kept = live.session.partial?.count ?? 0
        var end = handle(live.session.receive(.opened), output, &group)
        for await item in inbox.items where end == nil {
            for event in inbox.events(of: item) where end == nil {
                end = handle(live.session.receive(event), output, &group)
            }
            // A connection that has broken may be noticed here after the next one has begun. (Not with each
            // chunk: what is kept is copied when more comes.)
            let partial = live.session.partial?.count ?? 0
            if partial < kept || partial - kept >= max(Limits.keptStepBytes, kept / 32) {
                kept = partial
                await store.keep(live.session.partial)
            }
            item.release()
            if end == nil, unsent.load(ordering: .relaxed) > Limits.unsentBytes {
                let reason = SyncError(.unavailable, "the other side does not read what it asked for")
                end = handle(live.session.receive(.finish(reason)), output, &group)
            }
            if end != nil || live.session.isClosed { break }
        }
        if end == nil, Task.isCancelled {
            // Cancellation ends the inbox at once, also before what the handler delivers.
            let reason = SyncError(.goingAway, "this side is stopping")
            end = handle(live.session.receive(.finish(reason)), output, &group)
        }
        if live.session.partial?.count ?? 0 != kept { await store.keep(live.session.partial) }
        return end ?? Self.lost
    }

    /// Sends what is to be sent, starts the rest; returns why the session ends, if it does.
    private func handle(
        _ actions: [Action], _ output: AsyncStream<[UInt8]>.Continuation, _ group: inout DiscardingTaskGroup
    ) -> SyncError? {
        var end: SyncError?
        for action in actions {
            switch action {
            case .send(let frame):
                unsent.add(frame.count, ordering: .relaxed)
                output.yield(frame)
            case .close(let error): end = error
            default: group.addTask { await self.perform(action) }
            }
        }
        return end
    }

    /// Lets the last frames leave, but no longer than a stuck receiver deserves.
    private func finish(_ writer: Task<Void, Never>) async {
        let limit = Task {
            try await Task.sleep(for: Limits.lastFramesTimeout)
            writer.cancel()
        }
        await writer.value
        limit.cancel()
    }

    private func read(_ connection: some SessionConnection) async {
        do {
            while let message = try await connection.receive() {
                await inbox.put(frame: message)
            }
        } catch {
            logger.debug("the connection ended", metadata: ["reason": "\(error)"])
        }
        deliver(.disconnected)
    }

    private func perform(_ action: Action) async {
        do {
            if case .readStates = action {
                while unsent.load(ordering: .relaxed) > Limits.unsentPauseBytes {
                    try await Task.sleep(for: Limits.unsentPause)
                }
            }
            if let answer = try await store.perform(action) { deliver(answer) }
        } catch is CancellationError {
            return
        } catch {
            logger.error("a session's action failed", metadata: ["error": "\(error)"])
            deliver(.failed("\(error)"))
        }
    }
}

extension SyncError {
    /// The WebSocket close code that goes with the reason (RFC 6455 section 7.4).
    var closeCode: UInt16 {
        switch SyncErrorCode(rawValue: code) {
        case .goingAway, .expired: 1001
        case .frameTooLarge: 1009
        case .unavailable: 1011
        case .malformedFrame, .unknownMessage, .unexpectedMessage, .creditExceeded, .versionMismatch: 1002
        default: 1008
        }
    }
}
