import CRDT
import DQL
import Dispatch
import Foundation
import Logging
import Replica
import Synchronization

extension Engine {
    /// Begins a transaction; returns when it has the store.
    /// - Throws: `SDK-0207` when that takes longer than `sqlite3_begin_txn_timeout_secs`.
    func begin(_ info: DittoTransactionInfo) async throws -> TransactionSession {
        let replica = try replica()
        let session = TransactionSession(self, isReadOnly: info.isReadOnly)
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            begin(session, info, on: replica, Turn { continuation.resume(with: $0) })
        }
        return session
    }

    /// As `begin`, for the 4.x API: blocks the calling thread.
    func beginBlocking(_ info: DittoTransactionInfo) throws -> TransactionSession {
        let replica = try replica()
        let session = TransactionSession(self, isReadOnly: info.isReadOnly)
        let answer = BlockingAnswer<Void>()
        begin(session, info, on: replica, Turn { answer.set($0) })
        try answer.wait()
        return session
    }

    private func begin(
        _ session: TransactionSession, _ info: DittoTransactionInfo, on replica: PeerReplica, _ turn: Turn
    ) {
        if info.isReadOnly {
            // A thread of its own while the application keeps the transaction open: Dispatch gives a
            // queue only one more thread per second while others are blocked.
            Thread.detachNewThread { self.run(session, info, on: replica, turn) }
        } else {
            writer.start { self.run(session, info, on: replica, turn) }
        }
        let timeout = settings.parameters.transactionBeginTimeout
        guard timeout > .zero else { return }
        Self.clock.asyncAfter(deadline: .now() + timeout.dispatchInterval) {
            turn.end(
                throwing: SDKError(
                    .transactionTimeout,
                    "the transaction could not begin within \(timeout.components.seconds) s: another"
                        + " one is open"))
        }
    }

    private func run(
        _ session: TransactionSession, _ info: DittoTransactionInfo, on replica: PeerReplica, _ turn: Turn
    ) {
        guard turn.isWaiting else { return }
        let watch = Watch(info, settings.parameters, logger)
        defer { watch.cancel() }
        do {
            try session.run(on: replica) {
                // The waiting task has given up meanwhile, so nobody else will end the transaction.
                if !turn.begin() { session.abandon() }
            }
        } catch {
            turn.end(throwing: error)
        }
    }

    static let clock = DispatchQueue(label: "ditto.transactions.clock")
}

/// A transaction's wait for the store, which ends once.
private final class Turn: Sendable {
    private typealias End = @Sendable (Result<Void, any Error>) -> Void
    private let waiting: Mutex<End?>

    init(_ end: @escaping @Sendable (Result<Void, any Error>) -> Void) { waiting = Mutex(end) }

    var isWaiting: Bool { waiting.withLock { $0 != nil } }

    /// Returns false when the wait had ended before.
    func begin() -> Bool {
        let end = take()
        end?(.success(()))
        return end != nil
    }

    func end(throwing error: any Error) { take()?(.failure(error)) }

    private func take() -> End? {
        waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
    }
}

/// An answer that a thread waits for. Never wait on a thread that the answer itself needs.
final class BlockingAnswer<Value: Sendable>: Sendable {
    private let answer = Mutex<Result<Value, any Error>?>(nil)
    private let arrived = DispatchSemaphore(value: 0)

    /// Gives the answer, once.
    func set(_ result: Result<Value, any Error>) {
        answer.withLock { $0 = result }
        arrived.signal()
    }

    /// Blocks until the answer is there.
    func wait() throws -> Value {
        arrived.wait()
        guard let result = answer.withLock({ $0 }) else {
            preconditionFailure("an answer is set before it is signalled")
        }
        return try result.get()
    }
}

/// Warns in the log while a transaction is open for too long.
private struct Watch {
    private let timer: any DispatchSourceTimer

    init(_ info: DittoTransactionInfo, _ parameters: SystemParameters, _ logger: Logger) {
        let timer = DispatchSource.makeTimerSource(queue: Engine.clock)
        let began = ContinuousClock.now
        timer.setEventHandler {
            logger.warning(
                "a transaction is open for long",
                metadata: [
                    "id": "\(info.id)", "hint": "\(info.hint ?? "")", "readOnly": "\(info.isReadOnly)",
                    "seconds": "\((ContinuousClock.now - began).components.seconds)",
                ])
        }
        let (first, then) = (parameters.transactionLogDelay, parameters.transactionLogInterval)
        timer.schedule(
            deadline: .now() + first.dispatchInterval,
            repeating: then > .zero ? then.dispatchInterval : .never)
        timer.activate()
        self.timer = timer
    }

    func cancel() { timer.cancel() }
}

extension Duration {
    /// The duration for Dispatch, clamped.
    fileprivate var dispatchInterval: DispatchTimeInterval {
        .milliseconds(
            Int(clamping: components.seconds) * 1_000 + Int(components.attoseconds / 1_000_000_000_000_000))
    }
}
