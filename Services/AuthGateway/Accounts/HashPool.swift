import Foundation
import Machine
import Synchronization

/// Hashes passwords on few threads of its own, so that logins take a part of the processor and no more, and
/// none of the threads that serve everything else.
///
/// The networks that wait have their turns one after the other, so whoever floods a gateway with logins waits
/// for the own ones. Both the waiting of one network and of all are bounded. The lock guards the queues.
final class HashPool: Sendable {
    private struct State {
        var running = 0
        var waiting: [String: [CheckedContinuation<Bool, Never>]] = [:]
        /// The networks that wait, the next one first.
        var order: [String] = []
        var count = 0
    }

    private let threads: Int
    private let state = Mutex(State())

    /// - Parameter threads: half of the processor's cores unless a test says otherwise.
    init(threads: Int = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)) { self.threads = threads }

    /// Runs a body on a thread, when it is the network's turn.
    /// - Throws: `AUTH-0413` if too many wait, and as the body.
    func run<Value: Sendable>(
        for network: String, _ body: @escaping @Sendable () throws(AuthGatewayError) -> Value
    ) async throws(AuthGatewayError) -> Value {
        guard await begin(network) else {
            throw AuthGatewayError(.providerBusy, "too many logins wait; try again shortly")
        }
        defer { end() }
        let result = await withCheckedContinuation { continuation in
            WorkerThread.start("password") {
                continuation.resume(returning: Result { () throws(AuthGatewayError) in try body() })
            }
        }
        return try result.get()
    }

    /// Returns true when the caller has a thread; false at once if too many wait.
    private func begin(_ network: String) async -> Bool {
        await withCheckedContinuation { continuation in
            let decided = state.withLock { state -> Bool? in
                if state.running < threads {
                    state.running += 1
                    return true
                }
                let own = state.waiting[network]?.count ?? 0
                guard state.count < Limits.hashesWaiting, own < Limits.hashesWaitingOfOne else {
                    return false
                }
                if own == 0 { state.order.append(network) }
                state.waiting[network, default: []].append(continuation)
                state.count += 1
                return nil
            }
            if let decided { continuation.resume(returning: decided) }
        }
    }

    private func end() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.order.isEmpty else {
                state.running -= 1
                return nil
            }
            let network = state.order.removeFirst()
            guard var own = state.waiting.removeValue(forKey: network), !own.isEmpty else {
                preconditionFailure("a network in the order waits")
            }
            let next = own.removeFirst()
            if !own.isEmpty {
                state.waiting[network] = own
                state.order.append(network)
            }
            state.count -= 1
            return next
        }
        next?.resume(returning: true)
    }
}
