import CRDT
import DQL
import ServiceKit
import Synchronization

/// Does the work of one stream in turns of the process's pool, as the credential of its client: a condition
/// that somebody wrote, documents that are compared, rows that are printed. Each part has the time of a
/// statement, is listed among the running ones, and ends when the client leaves.
///
/// One part runs at a time. `state` guards who is told that the client has left.
final class StreamTurns: Sendable {
    private struct State {
        var hasLeft = false
        var running: Evaluation?
    }

    /// The pool of the parts.
    let pool: EvaluationPool
    private let text: String
    private let credential: String
    private let database: DatabaseID
    private let state = Mutex(State())

    /// - Parameter text: names the stream in the list of running statements.
    init(_ pool: EvaluationPool, _ text: String, of credential: String, in database: DatabaseID) {
        self.pool = pool
        self.text = text
        self.credential = credential
        self.database = database
    }

    /// Runs a part, which asks `checkEnd` of its evaluation now and then.
    /// - Throws: `QUERY-0401` and `QUERY-0402`, `CancellationError` after `leave`, the errors of `body`.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (Evaluation) throws -> Result
    ) async throws -> Result {
        try await evaluating { evaluation in try await evaluation.run { try body(evaluation) } }
    }

    /// The same for a part that has its turns within other work, such as reading a fold of the past.
    func evaluating<Result>(_ body: (Evaluation) async throws -> Result) async throws -> Result {
        let evaluation = pool.part(of: text, of: credential, in: database)
        defer {
            state.withLock { $0.running = nil }
            pool.finish(evaluation)
        }
        let hasLeft = state.withLock { state in
            state.running = evaluation
            return state.hasLeft
        }
        if hasLeft { throw CancellationError() }
        do {
            return try await body(evaluation)
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            if evaluation.end == .abandoned { throw CancellationError() }
            throw QueryError.ended(evaluation.end, after: pool.options.statementTime)
        }
    }

    /// Ends the part that runs, and all to come: the client has closed its connection.
    func leave() {
        let running = state.withLock { state in
            state.hasLeft = true
            return state.running
        }
        running?.end(.abandoned)
    }
}
