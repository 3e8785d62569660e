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
        let timeout = settings.parameters.transactionBeginTimeout
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let turn = Turn(continuation)
            if info.isReadOnly {
                // A thread of its own while the application keeps the transaction open: Dispatch gives a
                // queue only one more thread per second while others are blocked.
                Thread.detachNewThread { self.run(session, info, on: replica, turn) }
            } else {
                writer.start { self.run(session, info, on: replica, turn) }
            }
            guard timeout > .zero else { return }
            Self.clock.asyncAfter(deadline: .now() + timeout.dispatchInterval) {
                turn.end(
                    throwing: SDKError(
                        .transactionTimeout,
                        "the transaction could not begin within \(timeout.components.seconds) s: another"
                            + " one is open"))
            }
        }
        return session
    }

    private func run(
        _ session: TransactionSession, _ info: DittoTransactionInfo, on replica: Replica, _ turn: Turn
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
    private let waiting: Mutex<CheckedContinuation<Void, any Error>?>

    init(_ continuation: CheckedContinuation<Void, any Error>) { waiting = Mutex(continuation) }

    var isWaiting: Bool { waiting.withLock { $0 != nil } }

    /// Returns false when the wait had ended before.
    func begin() -> Bool {
        let continuation = take()
        continuation?.resume()
        return continuation != nil
    }

    func end(throwing error: any Error) { take()?.resume(throwing: error) }

    private func take() -> CheckedContinuation<Void, any Error>? {
        waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
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
