import Synchronization

/// Lets appends run before the fold, unless somebody waits for the fold.
///
/// Invariant: the fold is paused only while it yields to an append and nobody waits for it. `state` guards
/// all.
final class FoldThrottle: Sendable {
    private struct State {
        /// Number of callers that wait for the fold.
        var waits = 0
        /// Number of callers whose appends the fold yields to.
        var yields = 0
        /// The paused fold.
        var paused: CheckedContinuation<Void, Never>?

        var pauses: Bool { yields > 0 && waits == 0 }
    }

    private let state = Mutex(State())

    func beginWait() { change { $0.waits += 1 } }
    func endWait() { change { $0.waits -= 1 } }
    func yieldToAppends() { change { $0.yields += 1 } }
    func endYield() { change { $0.yields -= 1 } }

    private func change(_ body: (inout State) -> Void) {
        let paused = state.withLock { state -> CheckedContinuation<Void, Never>? in
            body(&state)
            precondition(state.waits >= 0 && state.yields >= 0, "a wait or yield ended that had not begun")
            guard !state.pauses else { return nil }
            defer { state.paused = nil }
            return state.paused
        }
        paused?.resume()
    }

    /// Returns when the fold may run. At most one fold calls this at a time.
    func waitForYields() async {
        await withCheckedContinuation { continuation in
            let runs = state.withLock { state in
                if state.pauses { state.paused = continuation }
                return !state.pauses
            }
            if runs { continuation.resume() }
        }
    }
}
