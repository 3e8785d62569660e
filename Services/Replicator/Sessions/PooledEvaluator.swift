import CRDT
import DQL
import Identity
import ServiceKit
import Synchronization

/// Evaluates a session's subscriptions in turns of the process's pool, as its credential.
///
/// A page of a catch-up has the pool's limit for itself. In an event of the live stream each subscription has
/// it for itself: the time is counted from one question for `interruption(of:)` to the next. Only the
/// processor's time counts, so waiting for others or for a busy machine costs nothing. A page that has waited
/// until its end is read again.
///
/// `state` guards what the event at hand has taken.
struct PooledEvaluator: SubscriptionEvaluator {
    private struct Handling {
        let evaluation: Evaluation
        var taken: [UInt64: Duration] = [:]
        var present: (subscription: UInt64, since: Duration)?
    }

    private final class State: Sendable {
        let handling = Mutex<Handling?>(nil)
    }

    private let pool: EvaluationPool
    private let seats: EvaluationSeats
    private let database: DatabaseID
    private let credential: String
    private let state = State()

    /// - Parameter seats: those of the database's store, shared by its sessions.
    init(_ pool: EvaluationPool, seats: EvaluationSeats, _ identity: Identity) {
        self.pool = pool
        self.seats = seats
        database = identity.databaseID
        credential = identity.credential
    }

    func evaluate<Result: Sendable>(
        _ body: @escaping @Sendable (Interrupting?) throws -> Result
    ) async throws -> Result {
        try await pool.subscribing(of: credential, in: database, as: "a page of a subscription") {
            evaluation in
            try await evaluation.run(on: seats) { try body { evaluation.interruption() } }
        }
    }

    func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        let evaluation = pool.subscription(of: credential, in: database, limit: nil)
        state.handling.withLock { $0 = Handling(evaluation: evaluation) }
        defer { state.handling.withLock { $0 = nil } }
        // A task that was cancelled before its turn handles the event all the same. A long statement in it is
        // parsed in slices.
        let work = Once { Preparation.interrupted(by: { evaluation.prepareNode() }, body) }
        if let result = try? await evaluation.run({ work() }) { return result }
        guard let result = work() else { preconditionFailure("handled once") }
        return result
    }

    func interruption(of subscription: UInt64) -> Interrupting? {
        let limit = pool.options.subscriptionTime
        return state.handling.withLock { handling -> Interrupting? in
            guard let evaluation = handling?.evaluation else { return nil }
            let now = evaluation.turnProcessorTime
            if let present = handling?.present {
                handling?.taken[present.subscription, default: .zero] += now - present.since
            }
            handling?.present = (subscription, now)
            let rest = limit - (handling?.taken[subscription] ?? .zero)
            let (end, clockEnd) = (now + rest, evaluation.turnComputed + rest)
            return {
                // The clock runs at least as fast as the processor's time, and costs less to ask.
                let isOver = evaluation.turnComputed >= clockEnd && evaluation.turnProcessorTime >= end
                return isOver ? .timeout : evaluation.interruption()
            }
        }
    }
}

/// Runs a closure at its first call only.
private final class Once<Result: Sendable>: Sendable {
    private let body: Mutex<(@Sendable () -> Result)?>

    init(_ body: @escaping @Sendable () -> Result) { self.body = Mutex(body) }

    func callAsFunction() -> Result? {
        body.withLock { body in
            defer { body = nil }
            return body
        }.map { $0() }
    }
}
