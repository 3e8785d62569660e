import Synchronization

/// State under a lock, with the tasks that wait for something in it.
///
/// A wait is a closure that looks at the state. It runs under the lock: at once, and again at the end of each
/// change, in the order in which the waits began, until it has a result. The task is resumed with that
/// result. A task that is only woken, and looks later, may find that another one has taken the thing
/// meanwhile; here nobody can.
///
/// Invariants: while the lock is free, no waiting closure has a result; each task is resumed once, by its
/// result, by its cancellation or at the end of its patience, and outside of the lock. A closure that returns
/// nil has changed nothing. It depends on the state alone, and does not use the monitor.
public final class Monitor<State: Sendable>: Sendable {
    private typealias Wake = @Sendable () -> Void
    private typealias Woken = (waiter: Waiter, wake: Wake)

    private struct Waiter: Sendable {
        let number: UInt64
        /// Looks at the state, and returns the task's resumption once there is a result.
        let look: @Sendable (inout State) -> Wake?
        /// Resumes the task without a result; nil if only the state ends the wait.
        let giveUp: Wake?
        var alarm: Alarm?
    }

    private struct Guarded: Sendable {
        var state: State
        var waiters: [Waiter] = []
        var last: UInt64 = 0

        /// Lets the waiters look until none has a result: the result of one may have changed the state.
        mutating func settle() -> [Woken] {
            guard !waiters.isEmpty else { return [] }
            var waiting = waiters
            waiters = []
            var woken: [Woken] = []
            var before: Int
            repeat {
                before = woken.count
                waiting.removeAll { waiter in
                    guard let wake = waiter.look(&state) else { return false }
                    woken.append((waiter, wake))
                    return true
                }
            } while woken.count > before
            waiters = waiting
            return woken
        }
    }

    private let guarded: Mutex<Guarded>

    /// A monitor of this state, for which nobody waits yet.
    public init(_ state: State) { guarded = Mutex(Guarded(state: state)) }

    /// The number of tasks that wait.
    public var waiting: Int { guarded.withLock { $0.waiters.count } }

    /// Looks at the state.
    public func read<Result: Sendable>(_ body: (State) -> Result) -> Result {
        guarded.withLock { body($0.state) }
    }

    /// Changes the state, and resumes the tasks that have a result by it.
    public func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, woken) = guarded.withLock { guarded in
            let result = body(&guarded.state)
            return (result, guarded.settle())
        }
        Self.resume(woken)
        return result
    }

    // MARK: Waiting

    /// Returns the first result of `look`, which may change the state where it has one. Only the state ends
    /// the wait: a cancelled task waits on.
    public func take<Found: Sendable>(_ look: @escaping @Sendable (inout State) -> Found?) async -> Found {
        let answer = PendingAnswer<Found>()
        begin(Waiter(number: 0, look: Self.telling(look) { answer.give($0) }, giveUp: nil), nil)
        return await answer.value()
    }

    /// Returns the first result of `look`, as above; nil when the task is cancelled, or after `patience`.
    /// - Parameter patience: nil for as long as the task is not cancelled.
    public func take<Found: Sendable>(
        within patience: Duration?, _ look: @escaping @Sendable (inout State) -> Found?
    ) async -> Found? {
        let number = guarded.withLock { guarded in
            guarded.last += 1
            return guarded.last
        }
        let answer = PendingAnswer<Found?>()
        return await withTaskCancellationHandler {
            let look = Self.telling(look) { answer.give($0) }
            begin(Waiter(number: number, look: look) { answer.give(nil) }, patience)
            return await answer.value()
        } onCancel: {
            giveUp(number)
        }
    }

    /// Returns when `isTrue` of the state. Only the state ends the wait.
    public func wait(until isTrue: @escaping @Sendable (State) -> Bool) async {
        await take { isTrue($0) ? () : nil }
    }

    /// Returns true when `isTrue` of the state; false when the task is cancelled, or after `patience`.
    /// - Parameter patience: nil for as long as the task is not cancelled.
    @discardableResult
    public func wait(
        within patience: Duration?, until isTrue: @escaping @Sendable (State) -> Bool
    ) async -> Bool {
        await take(within: patience) { isTrue($0) ? true : nil } ?? false
    }

    /// A look that returns how its result is told.
    private static func telling<Found: Sendable>(
        _ look: @escaping @Sendable (inout State) -> Found?, _ tell: @escaping @Sendable (Found) -> Void
    ) -> @Sendable (inout State) -> Wake? {
        { state in
            guard let found = look(&state) else { return nil }
            return { tell(found) }
        }
    }

    /// Lets a waiter look, and keeps it unless its wait is over.
    private func begin(_ waiter: Waiter, _ patience: Duration?) {
        let woken = guarded.withLock { guarded -> [Woken] in
            if let wake = waiter.look(&guarded.state) { return [(waiter, wake)] + guarded.settle() }
            // A cancellation sets the flag before it calls `giveUp`: either the flag is seen here, or
            // `giveUp` comes after this section and finds the waiter.
            if let giveUp = waiter.giveUp, Task.isCancelled { return [(waiter, giveUp)] }
            var waiter = waiter
            // Begun under the lock, since it must not look for the waiter before that is here.
            waiter.alarm = patience.map { [number = waiter.number] patience in
                Alarm(after: patience) { self.giveUp(number) }
            }
            guarded.waiters.append(waiter)
            return []
        }
        Self.resume(woken)
    }

    /// Ends a wait without a result. Does nothing if it has ended, or has not begun.
    private func giveUp(_ number: UInt64) {
        let waiter = guarded.withLock { guarded in
            guarded.waiters.firstIndex { $0.number == number }.map { guarded.waiters.remove(at: $0) }
        }
        if let waiter, let giveUp = waiter.giveUp { Self.resume([(waiter, giveUp)]) }
    }

    private static func resume(_ woken: [Woken]) {
        for (waiter, wake) in woken {
            waiter.alarm?.cancel()
            wake()
        }
    }
}
