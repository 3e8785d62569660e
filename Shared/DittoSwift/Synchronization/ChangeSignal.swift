import Synchronization

/// Wakes whoever waits for something to change. `state` guards the version and the waiting tasks.
///
/// Take the version, look at what you wait for, then wait for the version after: nothing is missed in
/// between.
final class ChangeSignal: Sendable {
    private struct State {
        var version: UInt64 = 0
        var nextWaiter = 0
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    var version: UInt64 { state.withLock { $0.version } }

    /// Something changed.
    func advance() {
        let waiters = state.withLock { state in
            defer { state.waiters = [:] }
            state.version += 1
            return state.waiters.values
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when something has changed after `version`, the time is over, or the task is cancelled.
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
