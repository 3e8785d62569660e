import Dispatch
import Synchronization

/// One answer that a task or a thread waits for, and that a queue, a thread or a callback gives.
///
/// It is for a result that belongs to one caller and comes once. Tasks that wait for something in a state
/// which others change too use `Monitor`, which is built on this. Both are the only places where a task is
/// suspended by hand.
///
/// Invariants: the first answer counts, and later ones change nothing, so a cancellation may give one at any
/// time. The answer may come before the wait. At most one waits, once.
public final class PendingAnswer<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(CheckedContinuation<Value, Never>)
        case blocked(DispatchSemaphore)
        case given(Value)
        case over
    }

    private enum Waiter: Sendable {
        case nobody
        case task(CheckedContinuation<Value, Never>)
        case thread(DispatchSemaphore)
    }

    private let state = Mutex(State.open)

    /// An answer that nobody has given yet.
    public init() {}

    /// True once there is an answer.
    public var isGiven: Bool {
        state.withLock { state in
            switch state {
            case .given, .over: true
            case .open, .awaited, .blocked: false
            }
        }
    }

    /// Gives the answer, and resumes the one who waits. Returns false if there was one before.
    @discardableResult
    public func give(_ value: Value) -> Bool {
        let waiter = state.withLock { state -> Waiter? in
            switch state {
            case .open:
                state = .given(value)
                return .nobody
            case .awaited(let continuation):
                state = .over
                return .task(continuation)
            case .blocked(let bell):
                state = .given(value)
                return .thread(bell)
            case .given, .over: return nil
            }
        }
        switch waiter {
        case .task(let continuation)?:
            if WorkerThread.isLowered {
                Herald.shared.run { continuation.resume(returning: value) }
            } else {
                continuation.resume(returning: value)
            }
        case .thread(let bell)?: bell.signal()
        case .nobody?, nil: break
        }
        return waiter != nil
    }

    /// Returns the answer once it is given. Only the answer ends the wait: a caller that may be cancelled
    /// gives one in its cancellation handler.
    public func value() async -> Value {
        if let value = taken() { return value }
        return await withCheckedContinuation { continuation in
            let value = state.withLock { state -> Value? in
                if case .given(let value) = state {
                    state = .over
                    return value
                }
                guard case .open = state else { preconditionFailure("an answer is waited for twice") }
                state = .awaited(continuation)
                return nil
            }
            if let value { continuation.resume(returning: value) }
        }
    }

    /// The same on a thread that may block; never on one that the answer itself needs.
    public func wait() -> Value {
        if let value = taken() { return value }
        let bell = DispatchSemaphore(value: 0)
        let waits = state.withLock { state in
            guard case .open = state else { return false }
            state = .blocked(bell)
            return true
        }
        if waits { bell.wait() }
        guard let value = taken() else { preconditionFailure("an answer is waited for twice") }
        return value
    }

    private func taken() -> Value? {
        state.withLock { state in
            guard case .given(let value) = state else { return nil }
            state = .over
            return value
        }
    }

    /// Runs a body on a queue, and returns its result without blocking a task's thread.
    public static func of(_ queue: DispatchQueue, _ body: @escaping @Sendable () -> Value) async -> Value {
        let answer = PendingAnswer()
        queue.async { answer.give(body()) }
        return await answer.value()
    }
}

extension PendingAnswer {
    /// Returns the result, or throws the error, once one of them is given.
    public func get<Success, Failure>() async throws(Failure) -> Success
    where Value == Result<Success, Failure> {
        try await value().get()
    }

    /// As above; a cancelled task waits no longer, and whoever has the answer gives it to nobody.
    public func getUnlessCancelled<Success>() async throws -> Success
    where Value == Result<Success, any Error> {
        try await withTaskCancellationHandler {
            try await get()
        } onCancel: {
            give(.failure(CancellationError()))
        }
    }

    /// Runs a body on a queue, and returns its result or throws its error.
    public static func of<Success>(
        _ queue: DispatchQueue, _ body: @escaping @Sendable () throws -> Success
    ) async throws -> Success where Value == Result<Success, any Error> {
        try await of(queue) { Result(catching: body) }.get()
    }
}
