import Sync

/// Performs a session's actions on one side's store. Each call may run beside others: the session asks for
/// what must not overlap only after the answer to what came before.
public protocol SessionStore: Sendable {
    /// Performs an action other than `send` and `close`; returns the event that answers it, nil where none
    /// does.
    func perform(_ action: Action) async throws -> Event?

    /// Keeps what has come of a message in chunks for the next session; nil when there is none under way.
    func keep(_ partial: PartialMessage?) async
}

extension SessionStore {
    /// Keeps nothing: such a message begins anew with each session.
    public func keep(_ partial: PartialMessage?) async {}
}
