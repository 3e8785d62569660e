/// A bounded number of turns, given in the order in which they are asked for.
public final class BoundedTurns: Sendable {
    private struct State: Sendable {
        var taken = 0
        /// Callers that wait for a turn, or are about to.
        var waiting = 0
    }

    private let limit: Int
    private let waitingLimit: Int
    private let patience: Duration?
    private let state = Monitor(State())

    /// - Parameters:
    ///   - limit: the number of turns.
    ///   - waiting: how many may wait for one; more are turned away at once.
    ///   - patience: how long each of them waits; nil for as long as its task is not cancelled.
    public init(_ limit: Int, waiting: Int, for patience: Duration?) {
        self.limit = limit
        waitingLimit = waiting
        self.patience = patience
    }

    /// How many wait.
    public var waiting: Int { state.waiting }

    /// Returns true when the caller has its turn, which it ends with `end`; false if it gets none in time, or
    /// its task is cancelled.
    public func begin() async -> Bool {
        let isDecided = state.change { state -> Bool? in
            guard state.taken >= limit else {
                state.taken += 1
                return true
            }
            guard state.waiting < waitingLimit else { return false }
            state.waiting += 1
            return nil
        }
        if let isDecided { return isDecided }
        let hasTurn = await state.take(within: patience) { [limit] state -> Bool? in
            guard state.taken < limit else { return nil }
            state.taken += 1
            return true
        }
        state.change { $0.waiting -= 1 }
        return hasTurn ?? false
    }

    /// Ends a turn; whoever waits longest has the next one.
    public func end() { state.change { $0.taken -= 1 } }
}
