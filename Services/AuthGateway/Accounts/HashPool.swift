import Foundation
import Machine

/// Hashes passwords on few threads of its own, so that logins take a part of the processor and no more, and
/// none of the threads that serve everything else.
///
/// The networks that wait have their turns one after the other, so whoever floods a gateway with logins waits
/// for the own ones. Both the waiting of one network and of all are bounded. A login that is given up leaves
/// the line; its password is hashed to the end once that has begun.
final class HashPool: Sendable {
    private struct State: Sendable {
        var running = 0
        /// The logins of each network that wait, by number.
        var waiting: [String: [UInt64]] = [:]
        /// The networks that wait, the next one first.
        var order: [String] = []
        var count = 0
        var last: UInt64 = 0
        /// Logins that have a thread, and have not been told.
        var called: Set<UInt64> = []

        /// Waits in the line. Returns a number; nil if too many wait.
        mutating func wait(_ network: String) -> UInt64? {
            let own = waiting[network]?.count ?? 0
            guard count < Limits.hashesWaiting, own < Limits.hashesWaitingOfOne else { return nil }
            last += 1
            if own == 0 { order.append(network) }
            waiting[network, default: []].append(last)
            count += 1
            return last
        }

        /// Gives a thread to the next one.
        mutating func end() {
            guard let network = order.first else { return running -= 1 }
            order.removeFirst()
            guard let next = waiting[network]?.first else { return end() }
            remove(next, network)
            called.insert(next)
            if waiting[network] != nil { order.append(network) }
        }

        /// Takes one out of the line who has not been told of a thread.
        mutating func giveUp(_ number: UInt64, _ network: String) {
            guard called.remove(number) == nil else { return end() }
            remove(number, network)
            if waiting[network] == nil { order.removeAll { $0 == network } }
        }

        private mutating func remove(_ number: UInt64, _ network: String) {
            guard let place = waiting[network]?.firstIndex(of: number) else { return }
            waiting[network]?.remove(at: place)
            count -= 1
            if waiting[network]?.isEmpty ?? false { waiting[network] = nil }
        }
    }

    private let threads: Int
    private let state = Monitor(State())

    /// - Parameter threads: half of the processor's cores unless a test says otherwise.
    init(threads: Int = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)) { self.threads = threads }

    /// The number of logins that wait.
    var waiting: Int { state.read { $0.count } }

    /// Runs a body on a thread, when it is the network's turn.
    /// - Throws: `AUTH-0413` if too many wait or the task is cancelled before, and as the body.
    func run<Value: Sendable>(
        for network: String, _ body: @escaping @Sendable () throws(AuthGatewayError) -> Value
    ) async throws(AuthGatewayError) -> Value {
        guard await begin(network) else {
            throw AuthGatewayError(.providerBusy, "too many logins wait; try again shortly")
        }
        defer { state.change { $0.end() } }
        let answer = PendingAnswer<Result<Value, AuthGatewayError>>()
        WorkerThread.start("password") {
            answer.give(Result { () throws(AuthGatewayError) in try body() })
        }
        return try await answer.get()
    }

    /// Returns true when the caller has a thread; false at once if too many wait.
    private func begin(_ network: String) async -> Bool {
        enum Beginning { case now, later(UInt64), never }
        let beginning = state.change { state -> Beginning in
            if state.running < threads {
                state.running += 1
                return .now
            }
            return state.wait(network).map { .later($0) } ?? .never
        }
        switch beginning {
        case .now: return true
        case .never: return false
        case .later(let number):
            let isCalled = await state.take(within: nil) { $0.called.remove(number) }
            if isCalled == nil { state.change { $0.giveUp(number, network) } }
            return isCalled != nil
        }
    }
}
