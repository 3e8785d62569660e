import Synchronization

/// Wakes the tasks that wait for a change. `state` guards the version and the waiting tasks.
///
/// Take the version, check the condition, then wait for a later version: no change is missed in between.
final class ChangeSignal: Sendable {
    private struct State {
        var version: UInt64 = 0
        var nextWaiter = 0
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    var version: UInt64 { state.withLock { $0.version } }

    /// Reports a change.
    func advance() {
        let waiters = state.withLock { state in
            defer { state.waiters = [:] }
            state.version += 1
            return state.waiters.values
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when there was a change after `version`, on timeout, or when the task is cancelled.
    func wait(after version: UInt64, atMost timeout: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await Task.sleep(for: timeout) }
            group.addTask { await self.wait(after: version) }
            await group.next()
            group.cancelAll()
        }
    }

    private func wait(after version: UInt64) async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    guard state.version == version, !Task.isCancelled else { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }
}
