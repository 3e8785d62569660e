import Machine

/// Lets appends run before the fold, unless somebody waits for the fold.
///
/// Invariant: the fold is paused only while it yields to an append and nobody waits for it. `state` guards
/// all.
final class FoldThrottle: Sendable {
    private struct State: Sendable {
        /// Number of callers that wait for the fold.
        var waits = 0
        /// Number of callers whose appends the fold yields to.
        var yields = 0

        var pauses: Bool { yields > 0 && waits == 0 }
    }

    private let state = Monitor(State())

    func beginWait() { change { $0.waits += 1 } }
    func endWait() { change { $0.waits -= 1 } }
    func prioritizeAppends() { change { $0.yields += 1 } }
    func endYield() { change { $0.yields -= 1 } }

    private func change(_ body: (inout State) -> Void) {
        state.change { state in
            body(&state)
            precondition(state.waits >= 0 && state.yields >= 0, "a wait or yield ended that had not begun")
        }
    }

    /// Returns when the fold may run.
    func waitForYields() async { await state.wait { !$0.pauses } }
}
