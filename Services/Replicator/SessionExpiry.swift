import ServiceKit
import Sync
import Synchronization

/// Ends a session when its token expires; a newer token puts the end off.
///
/// `state` guards the task that waits; it is never held across a wait.
final class SessionExpiry: Sendable {
    /// Where the time comes from.
    struct Clock: Sendable {
        /// Seconds since 1970.
        let nowSeconds: @Sendable () -> Int64
        /// Waits about this many seconds; may end early.
        let sleep: @Sendable (Int64) async throws -> Void
    }

    private let clock: Clock
    private let state = Mutex(State())

    private struct State {
        var task: Task<Void, Never>?
        /// What ends the session, while it runs.
        var end: (@Sendable (SyncError) -> Void)?
    }

    init(clock: Clock) { self.clock = clock }

    /// The session has begun; `end` is to end it.
    func begin(_ expiresAtSeconds: Int64, end: @escaping @Sendable (SyncError) -> Void) {
        state.withLock { $0.end = end }
        set(expiresAtSeconds)
    }

    /// The session ends at this time, whatever was said before.
    func set(_ expiresAtSeconds: Int64) {
        state.withLock { state in
            guard let end = state.end else { return }
            state.task?.cancel()
            state.task = Task { [clock] in
                do {
                    // In steps, since an issuer may put the end further away than a sleep can be long.
                    while true {
                        let rest = expiresAtSeconds - clock.nowSeconds()
                        guard rest > 0 else { break }
                        try await clock.sleep(min(rest, Limits.longestExpirySleepSeconds))
                    }
                    try Task.checkCancellation()
                    end(SyncError(.expired, "the access token has expired"))
                } catch {
                    // Another end was set, or the session is over.
                }
            }
        }
    }

    /// The session is over.
    func cancel() {
        state.withLock { state in
            state.task?.cancel()
            state.end = nil
        }
    }
}

extension SessionExpiry.Clock {
    /// The system's.
    static let system = Self(
        nowSeconds: Authenticator.systemSeconds, sleep: { try await Task.sleep(for: .seconds($0)) })
}
