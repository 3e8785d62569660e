import Synchronization

/// A bounded number of turns, given in the order in which they are asked for.
///
/// `state` guards all. Invariant: somebody waits only while all turns are taken.
final class Turns: Sendable {
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Bool, Never>
        /// Ends the wait in time.
        let timer: Task<Void, any Error>

        func resume(_ hasTurn: Bool) {
            timer.cancel()
            continuation.resume(returning: hasTurn)
        }
    }

    private struct State {
        var taken = 0
        var waiting: [Waiter] = []
        var last: UInt64 = 0
    }

    private let limit: Int
    private let waitingLimit: Int
    private let patience: Duration
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: the number of turns.
    ///   - waiting: how many may wait for one; more are turned away at once.
    ///   - patience: how long each of them waits.
    init(_ limit: Int, waiting: Int, for patience: Duration) {
        self.limit = limit
        waitingLimit = waiting
        self.patience = patience
    }

    /// How many wait.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Returns true when the caller has its turn, which it ends with `end`; false if it gets none in time, or
    /// its task is cancelled.
    func begin() async -> Bool {
        let isFree = state.withLock { state in
            guard state.taken < limit else { return false }
            state.taken += 1
            return true
        }
        guard !isFree else { return true }
        let id = state.withLock { state in
            state.last += 1
            return state.last
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, id) }
        } onCancel: {
            giveUp(id)
        }
    }

    /// Ends a turn; whoever waits longest has the next one.
    func end() {
        let next = state.withLock { state -> Waiter? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.taken -= 1
            return nil
        }
        next?.resume(true)
    }

    private func wait(_ continuation: CheckedContinuation<Bool, Never>, _ id: UInt64) {
        let answer = state.withLock { state -> Bool? in
            // A turn may have ended meanwhile.
            if state.taken < limit {
                state.taken += 1
                return true
            }
            guard state.waiting.count < waitingLimit, !Task.isCancelled else { return false }
            // Begun under the lock: it ends a wait that has begun.
            let timer = Task { [patience] in
                try await Task.sleep(for: patience)
                self.giveUp(id)
            }
            state.waiting.append(Waiter(id: id, continuation: continuation, timer: timer))
            return nil
        }
        if let answer { continuation.resume(returning: answer) }
    }

    private func giveUp(_ id: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard let index = state.waiting.firstIndex(where: { $0.id == id }) else { return nil }
            return state.waiting.remove(at: index)
        }
        waiter?.resume(false)
    }
}
