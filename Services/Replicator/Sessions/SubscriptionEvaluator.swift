import DQL
import Machine
import Sync

/// Evaluates the conditions of one session's subscriptions where that holds up nobody else. (A simulation has
/// one thread and no limits: `UnlimitedEvaluator`.)
package protocol SubscriptionEvaluator: Sendable {
    /// Asked by a condition now and then why to stop.
    typealias Interrupting = @Sendable () -> Interruption?

    /// Runs work that reads the store for one subscription, on a thread that may block.
    /// - Throws: the errors of `body`; `DQL-0611` when it takes too long.
    func evaluate<Result: Sendable>(
        _ body: @escaping @Sendable (Interrupting?) throws -> Result
    ) async throws -> Result

    /// Runs the handling of an event in which conditions are evaluated; those of a subscription end when
    /// `interruption` says so.
    func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result
}

/// Evaluates on a store's own threads, however long that takes.
package struct UnlimitedEvaluator: SubscriptionEvaluator {
    let executor: BlockingExecutor

    /// See `SubscriptionEvaluator`.
    package func evaluate<Result: Sendable>(
        _ body: @escaping @Sendable (Interrupting?) throws -> Result
    ) async throws -> Result {
        try await executor.run { try body(nil) }
    }

    /// Runs it here.
    package func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result { body() }
}
