import CRDT
import Sync

/// Performs a session's actions on one side's store. Calls may overlap: the session requests an action that
/// must not overlap only after the answer to the previous one.
public protocol SessionStore: Sendable {
    /// Performs an action other than `send` and `close`; returns the event that answers it, nil if none
    /// does.
    func perform(_ action: Action) async throws -> Event?

    /// Performs `awaitOperations` without a waiting task: `deliver` is called once, at once or later, from
    /// anywhere but under a lock, unless the session ends before. False if the store cannot: then the
    /// action is performed like any other.
    func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool

    /// The events that answer an action, if they are at hand, none for an action without an answer that is
    /// done by this; nil if the action must be performed. Called between events, where they are handled.
    func ready(_ action: Action) -> [Event]?

    /// Keeps the received part of a chunked message for the next session; nil when there is none.
    func keep(_ partial: PartialMessage?) async

    /// Returns whether handling these events may take long: then it is done by `handle`.
    func mayTakeLong(_ events: [Event]) -> Bool

    /// Runs the handling of events that may take long, on a thread for such work, and waits for it.
    func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result
}

extension SessionStore {
    /// Not supported: a task waits instead.
    public func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool { false }

    /// No event is at hand.
    public func ready(_ action: Action) -> [Event]? { nil }

    /// Keeps nothing: such a message starts again with each session.
    public func keep(_ partial: PartialMessage?) async {}

    /// Nothing does.
    public func mayTakeLong(_ events: [Event]) -> Bool { false }

    /// Runs it here.
    public func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result { body() }
}
