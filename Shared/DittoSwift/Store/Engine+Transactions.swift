import CRDT
import DQL
import Dispatch
import Foundation
import Logging
import Machine
import Replica
import Synchronization

extension Engine {
    /// Begins a transaction; returns when it has the store.
    /// - Throws: `SDK-0207` when that takes longer than `sqlite3_begin_txn_timeout_secs`.
    func begin(_ info: DittoTransactionInfo) async throws -> TransactionSession {
        let replica = try replica()
        let session = TransactionSession(self, isReadOnly: info.isReadOnly)
        let turn = Turn()
        let alarm = begin(session, info, on: replica, turn)
        defer { alarm?.cancel() }
        try await turn.get()
        return session
    }

    /// As `begin`, for the 4.x API: blocks the calling thread.
    func beginBlocking(_ info: DittoTransactionInfo) throws -> TransactionSession {
        let replica = try replica()
        let session = TransactionSession(self, isReadOnly: info.isReadOnly)
        let turn = Turn()
        let alarm = begin(session, info, on: replica, turn)
        defer { alarm?.cancel() }
        try turn.wait().get()
        return session
    }

    /// Returns the end of the wait for the turn; nil where it has none.
    private func begin(
        _ session: TransactionSession, _ info: DittoTransactionInfo, on replica: PeerReplica, _ turn: Turn
    ) -> Alarm? {
        if info.isReadOnly {
            // A thread of its own while the application keeps the transaction open: Dispatch gives a
            // queue only one more thread per second while others are blocked.
            Thread.detachNewThread { self.run(session, info, on: replica, turn) }
        } else {
            writer.start { self.run(session, info, on: replica, turn) }
        }
        let timeout = settings.parameters.transactionBeginTimeout
        guard timeout > .zero else { return nil }
        return Alarm(after: timeout) {
            turn.give(
                .failure(
                    SDKError(
                        .transactionTimeout,
                        "the transaction could not begin within \(timeout.components.seconds) s: another"
                            + " one is open")))
        }
    }

    private func run(
        _ session: TransactionSession, _ info: DittoTransactionInfo, on replica: PeerReplica, _ turn: Turn
    ) {
        guard !turn.isGiven else { return }
        let watch = Watch(info, settings.parameters, logger)
        defer { watch.cancel() }
        do {
            try session.run(on: replica) {
                // The waiting task has given up meanwhile, so nobody else will end the transaction.
                if !turn.give(.success(())) { session.abandon() }
            }
        } catch {
            turn.give(.failure(error))
        }
    }

    static let clock = DispatchQueue(label: "ditto.transactions.clock")
}

/// A transaction's wait for the store.
private typealias Turn = PendingAnswer<Result<Void, any Error>>

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
