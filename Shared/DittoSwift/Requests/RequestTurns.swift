import DQL
import Machine

/// Bounds the number of statements that run at a time (`dql_concurrent_request_limit`); the others wait in
/// order of arrival. Thread-safe.
///
/// Invariants: `running` counts the admitted statements that have not ended; nobody waits while there is
/// room.
final class RequestTurns: Sendable {
    private struct State: Sendable {
        var limit: Int
        var running = 0

        /// Admits a statement; nil if there is no room.
        mutating func admit() -> Bool? {
            guard limit == 0 || running < limit else { return nil }
            running += 1
            return true
        }
    }

    private let state: Monitor<State>

    /// Turns for `limit` statements at a time; 0 is any number.
    init(limit: Int = 0) { state = Monitor(State(limit: limit)) }

    /// Changes the number of statements that may run at a time.
    func resize(to limit: Int) { state.change { $0.limit = limit } }

    /// Runs a statement when it is its turn. Throws `tooManyRequests` when that takes longer than `wait`,
    /// and `cancelled` when its task is cancelled before.
    func run<Result>(
        within wait: Duration, _ body: () async throws -> Result
    ) async throws -> Result {
        try await enter(within: wait)
        defer { state.change { $0.running -= 1 } }
        return try await body()
    }

    private func enter(within wait: Duration) async throws {
        guard await state.take(within: wait, { $0.admit() }) == nil else { return }
        if Task.isCancelled { throw DQLError(.cancelled, "Query failed: the request was cancelled") }
        throw DQLError(
            .tooManyRequests,
            "dql_concurrent_request_limit statements run, and the wait of \(wait.wholeMilliseconds) ms for"
                + " one of them to end is over")
    }
}

extension Duration {
    fileprivate var wholeMilliseconds: Int {
        Int(clamping: components.seconds) * 1_000 + Int(components.attoseconds / 1_000_000_000_000_000)
    }
}
