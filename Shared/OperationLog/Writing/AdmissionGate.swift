import Synchronization

/// Back-pressure: admits calls while the admitted and not yet released cost stays within bounds.
///
/// Invariants
/// - The sum of admitted costs exceeds a bound only while a single call does so alone.
/// - First come, first admitted: no call overtakes a waiter, so small calls do not starve a large one.
/// - A waiter is resumed exactly once: by room, by cancellation, or by `close`.
///
/// `state` guards everything; continuations are resumed outside of it.
package final class AdmissionGate: Sendable {
    /// A number of operations and their bytes.
    package struct Cost: Hashable, Sendable {
        var operations: Int
        var bytes: Int

        package init(operations: Int, bytes: Int) {
            self.operations = operations
            self.bytes = bytes
        }
    }

    private struct Waiter {
        let id: UInt64
        let cost: Cost
        let resume: @Sendable (Result<Void, any Error>) -> Void
    }

    private struct State {
        var used = Cost(operations: 0, bytes: 0)
        var waiters: [Waiter] = []
        var lastID: UInt64 = 0
        var refusal: OperationLogError?
    }

    private let limit: Cost
    private let waiterLimit: Int
    private let state = Mutex(State())

    /// A gate that admits up to `limit` and lets `waiterLimit` calls wait.
    package init(limit: Cost, waiterLimit: Int) {
        self.limit = limit
        self.waiterLimit = waiterLimit
    }

    /// The admitted cost and the number of waiting calls.
    var load: (used: Cost, waiters: Int) { state.withLock { ($0.used, $0.waiters.count) } }

    /// Returns once the cost is admitted. Every return must be paired with a `release`.
    /// - Throws: `LOG-0305` if too many wait, the error given to `close`, or `CancellationError`.
    func acquire(_ cost: Cost) async throws {
        guard try !admitAtOnce(cost) else { return }
        let id = nextID()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                wait(Waiter(id: id, cost: cost) { continuation.resume(with: $0) })
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// The same on a thread that may block.
    func acquireBlocking(_ cost: Cost) throws {
        guard try !admitAtOnce(cost) else { return }
        let call = BlockedCall<Void>()
        wait(Waiter(id: nextID(), cost: cost) { call.end($0) })
        try call.wait()
    }

    private func nextID() -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
    }

    /// Gives back an admitted cost and admits the waiters that now fit, in order.
    func release(_ cost: Cost) {
        let admitted = state.withLock { state in
            state.used.operations -= cost.operations
            state.used.bytes -= cost.bytes
            return state.waiters.isEmpty ? [] : admitWaiters(&state)
        }
        for waiter in admitted { waiter.resume(.success(())) }
    }

    /// Refuses all present and future waiters with this error. The first error stays.
    func close(_ error: OperationLogError) {
        let refused = state.withLock { state in
            state.refusal = state.refusal ?? error
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in refused { waiter.resume(.failure(error)) }
    }

    /// Admits again after `close`.
    func open() { state.withLock { $0.refusal = nil } }

    private func admitAtOnce(_ cost: Cost) throws -> Bool {
        try state.withLock { state in
            if let refusal = state.refusal { throw refusal }
            guard state.waiters.isEmpty, fits(cost, in: state) else { return false }
            take(cost, in: &state)
            return true
        }
    }

    /// Cancellation sets the task's flag before it calls `cancel`. So either this method sees the flag
    /// under the lock, or `cancel` comes after the lock was released and finds the waiter.
    private func wait(_ waiter: Waiter) {
        let outcome: Result<Void, any Error>? = state.withLock { state in
            if let refusal = state.refusal { return .failure(refusal) }
            if Task.isCancelled { return .failure(CancellationError()) }
            if state.waiters.isEmpty, fits(waiter.cost, in: state) {
                take(waiter.cost, in: &state)
                return .success(())
            }
            guard state.waiters.count < waiterLimit else {
                return .failure(
                    OperationLogError(.overloaded, "\(waiterLimit) appends wait; try again later"))
            }
            state.waiters.append(waiter)
            return nil
        }
        if let outcome { waiter.resume(outcome) }
    }

    private func cancel(_ id: UInt64) {
        let (cancelled, admitted) = state.withLock { state -> (Waiter?, [Waiter]) in
            guard let index = state.waiters.firstIndex(where: { $0.id == id }) else { return (nil, []) }
            let waiter = state.waiters.remove(at: index)
            return (waiter, admitWaiters(&state))
        }
        cancelled?.resume(.failure(CancellationError()))
        for waiter in admitted { waiter.resume(.success(())) }
    }

    private func admitWaiters(_ state: inout State) -> [Waiter] {
        var count = 0
        while count < state.waiters.count, fits(state.waiters[count].cost, in: state) {
            take(state.waiters[count].cost, in: &state)
            count += 1
        }
        let admitted = Array(state.waiters.prefix(count))
        state.waiters.removeFirst(count)
        return admitted
    }

    private func fits(_ cost: Cost, in state: State) -> Bool {
        let used = state.used
        if used.operations == 0 && used.bytes == 0 { return true }
        return used.operations + cost.operations <= limit.operations && used.bytes + cost.bytes <= limit.bytes
    }

    private func take(_ cost: Cost, in state: inout State) {
        state.used.operations += cost.operations
        state.used.bytes += cost.bytes
    }
}
