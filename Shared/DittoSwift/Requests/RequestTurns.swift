import DQL
import Dispatch
import Synchronization

/// Bounds the number of statements that run at a time (`dql_concurrent_request_limit`); the others wait in
/// order of arrival. Thread-safe.
///
/// Invariants: a waiting statement is admitted or refused once; `running` counts the admitted ones that
/// have not ended; nobody waits while there is room.
final class RequestTurns: Sendable {
    private typealias Waiting = (number: Int, continuation: CheckedContinuation<Void, any Error>)

    private struct State {
        var limit: Int
        var running = 0
        var last = 0
        var waiting: [Waiting] = []

        var hasRoom: Bool { limit == 0 || running < limit }
    }

    private let state: Mutex<State>

    /// Turns for `limit` statements at a time; 0 is any number.
    init(limit: Int = 0) { state = Mutex(State(limit: limit)) }

    /// Changes the number of statements that may run at a time.
    func resize(to limit: Int) {
        admit { $0.limit = limit }
    }

    /// Runs a statement when it is its turn. Throws `tooManyRequests` when that takes longer than `wait`,
    /// and `cancelled` when its task is cancelled before.
    func run<Result>(
        within wait: Duration, _ body: () async throws -> Result
    ) async throws -> Result {
        try await enter(within: wait)
        defer { admit { $0.running -= 1 } }
        return try await body()
    }

    private func enter(within wait: Duration) async throws {
        let number = state.withLock { state -> Int? in
            guard !state.hasRoom else {
                state.running += 1
                return nil
            }
            state.last += 1
            return state.last
        }
        guard let number else { return }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                admit { $0.waiting.append((number, continuation)) }
                if Task.isCancelled { sendAway(number, Self.cancelled) }
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(wait.wholeMilliseconds)) {
                    self.sendAway(
                        number,
                        DQLError(
                            .tooManyRequests,
                            "dql_concurrent_request_limit statements run, and the wait of "
                                + "\(wait.wholeMilliseconds) ms for one of them to end is over"))
                }
            }
        } onCancel: {
            sendAway(number, Self.cancelled)
        }
    }

    private static let cancelled = DQLError(.cancelled, "Query failed: the request was cancelled")

    /// Changes the state and admits the waiters that then fit.
    private func admit(_ change: (inout State) -> Void) {
        let admitted = state.withLock { state -> [Waiting] in
            change(&state)
            var admitted: [Waiting] = []
            while state.hasRoom, !state.waiting.isEmpty {
                state.running += 1
                admitted.append(state.waiting.removeFirst())
            }
            return admitted
        }
        for one in admitted { one.continuation.resume() }
    }

    /// A no-op if it was admitted or refused before.
    private func sendAway(_ number: Int, _ error: DQLError) {
        let one = state.withLock { state in
            state.waiting.firstIndex { $0.number == number }.map { state.waiting.remove(at: $0) }
        }
        one?.continuation.resume(throwing: error)
    }
}

extension Duration {
    fileprivate var wholeMilliseconds: Int {
        Int(clamping: components.seconds) * 1_000 + Int(components.attoseconds / 1_000_000_000_000_000)
    }
}
