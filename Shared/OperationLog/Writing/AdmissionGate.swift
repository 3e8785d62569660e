import Machine
import Synchronization

/// Back-pressure: admits calls while the admitted and not yet released cost stays within bounds.
///
/// Invariants
/// - The sum of admitted costs exceeds a bound only while a single call does so alone.
/// - First come, first admitted: no call overtakes a waiter, so small calls do not starve a large one.
/// - A waiter gets one answer: its room, which is taken for it, its cancellation, or the reason of `close`.
///
/// `state` guards everything; answers are given outside of it. A `Monitor` would let each of the waiters look
/// after each release, and there may be 20,000.
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
        let answer = PendingAnswer<Result<Void, any Error>>()
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
        let waiter = Waiter(id: nextID(), cost: cost)
        wait(waiter)
        try await withTaskCancellationHandler {
            try await waiter.answer.get()
        } onCancel: {
            cancel(waiter.id)
        }
    }

    /// The same on a thread that may block.
    func acquireBlocking(_ cost: Cost) throws {
        guard try !admitAtOnce(cost) else { return }
        let waiter = Waiter(id: nextID(), cost: cost)
        wait(waiter)
        try waiter.answer.wait().get()
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
        for waiter in admitted { waiter.answer.give(.success(())) }
    }

    /// Refuses all present and future waiters with this error. The first error stays.
    func close(_ error: OperationLogError) {
        let refused = state.withLock { state in
            state.refusal = state.refusal ?? error
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in refused { waiter.answer.give(.failure(error)) }
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

    /// Lists a waiter, or answers it at once.
    private func wait(_ waiter: Waiter) {
        let outcome: Result<Void, any Error>? = state.withLock { state in
            if let refusal = state.refusal { return .failure(refusal) }
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
        if let outcome { waiter.answer.give(outcome) }
    }

    private func cancel(_ id: UInt64) {
        let (cancelled, admitted) = state.withLock { state -> (Waiter?, [Waiter]) in
            guard let index = state.waiters.firstIndex(where: { $0.id == id }) else { return (nil, []) }
            let waiter = state.waiters.remove(at: index)
            return (waiter, admitWaiters(&state))
        }
        cancelled?.answer.give(.failure(CancellationError()))
        for waiter in admitted { waiter.answer.give(.success(())) }
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
