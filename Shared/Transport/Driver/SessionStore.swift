import CRDT
import Sync

/// Performs a session's actions on one side's store. Each call may run beside others: the session asks for
/// what must not overlap only after the answer to what came before.
public protocol SessionStore: Sendable {
    /// Performs an action other than `send` and `close`; returns the event that answers it, nil where none
    /// does.
    func perform(_ action: Action) async throws -> Event?

    /// Performs `awaitOperations` without a task that waits: `deliver` is called once, at once or later,
    /// from anywhere but under a lock, unless the session ends before. False where the store cannot: then
    /// it is performed as any other.
    func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool

    /// The event that answers an action, where it is at hand; nil for what is to be performed. Asked on the
    /// session's way: it must be quick.
    func ready(_ action: Action) -> Event?

    /// Keeps what has come of a message in chunks for the next session; nil when there is none under way.
    func keep(_ partial: PartialMessage?) async
}

extension SessionStore {
    /// Waits in a task.
    public func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool { false }

    /// Nothing is at hand.
    public func ready(_ action: Action) -> Event? { nil }

    /// Keeps nothing: such a message begins anew with each session.
    public func keep(_ partial: PartialMessage?) async {}
}
