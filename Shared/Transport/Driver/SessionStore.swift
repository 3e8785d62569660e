import Sync

/// Performs a session's actions on one side's store. Each call may run beside others: the session asks for
/// what must not overlap only after the answer to what came before.
public protocol SessionStore: Sendable {
    /// Performs an action other than `send` and `close`; returns the event that answers it, nil where none
    /// does.
    func perform(_ action: Action) async throws -> Event?
}
