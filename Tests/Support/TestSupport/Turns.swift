import Synchronization

/// One turn at a time for tests that change a setting of the whole process: suites of several targets may run
/// beside each other in one.
public final class Turns: Sendable {
    /// The turns with the SDK's log.
    public static let logger = Turns()

    private struct State {
        var isTaken = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Runs a body when nobody else has the turn.
    public func run<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        await withCheckedContinuation { (turn: CheckedContinuation<Void, Never>) in
            let isFree = state.withLock { state in
                defer { state.isTaken = true }
                if state.isTaken { state.waiting.append(turn) }
                return !state.isTaken
            }
            if isFree { turn.resume() }
        }
        defer { end() }
        return try await body()
    }

    private func end() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.waiting.isEmpty else {
                state.isTaken = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }
}
