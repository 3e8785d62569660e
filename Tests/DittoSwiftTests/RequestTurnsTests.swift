import DQL
import Synchronization
import Testing

@testable import DittoSwift

@Suite("Turns of statements")
struct RequestTurnsTests {
    /// Runs that wait until they are let go.
    private final class Gate: Sendable {
        private let state = Mutex<(open: Bool, waiting: [CheckedContinuation<Void, Never>])>((false, []))
        let running = Mutex(0)

        func pass() async {
            running.withLock { $0 += 1 }
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.open { state.waiting.append(continuation) }
                    return state.open
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiting = state.withLock { state in
                state.open = true
                return state.waiting
            }
            waiting.forEach { $0.resume() }
        }
    }

    @Test("as many run as may, the others when one has ended")
    func limit() async throws {
        let (turns, gate) = (RequestTurns(limit: 2), Gate())
        let tasks = (0..<6).map { _ in
            Task { try await turns.run(within: .seconds(600)) { await gate.pass() } }
        }
        while gate.running.withLock({ $0 }) < 2 { await Task.yield() }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(gate.running.withLock { $0 } == 2)
        turns.resize(to: 3)
        while gate.running.withLock({ $0 }) < 3 { await Task.yield() }
        gate.open()
        for task in tasks { try await task.value }
        #expect(gate.running.withLock { $0 } == 6)
    }

    @Test("who waits too long, or is cancelled, is sent away with a code; the others come to their turn")
    func sentAway() async throws {
        let (turns, gate) = (RequestTurns(limit: 1), Gate())
        let first = Task { try await turns.run(within: .seconds(600)) { await gate.pass() } }
        while gate.running.withLock({ $0 }) < 1 { await Task.yield() }
        let late = await #expect(throws: DQLError.self) { try await turns.run(within: .milliseconds(1)) {} }
        #expect(late?.code == .tooManyRequests)
        let cancelled = Task { try await turns.run(within: .seconds(600)) {} }
        cancelled.cancel()
        let error = await #expect(throws: DQLError.self) { try await cancelled.value }
        #expect(error?.code == .cancelled)
        let last = Task { try await turns.run(within: .seconds(600)) { 7 } }
        gate.open()
        try await first.value
        #expect(try await last.value == 7)
        await #expect(throws: CancellationError.self) {
            try await turns.run(within: .zero) { throw CancellationError() }
        }
        #expect(try await turns.run(within: .zero) { 8 } == 8)
    }

    @Test("without a limit nobody waits")
    func unlimited() async throws {
        let turns = RequestTurns()
        let sum = try await turns.run(within: .zero) { try await turns.run(within: .zero) { 1 } }
        #expect(sum == 1)
    }
}
