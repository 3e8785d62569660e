import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log whose leases are lost from the second renewal on: another process has its turn.
final class FickleLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its superclass; the number guards itself.
    private let renewals = Mutex(0)

    override func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws
        -> Bool
    {
        let count = renewals.withLock { count in
            count += 1
            return count
        }
        return count < 2
    }
}

/// Stores every chunk of a snapshot with another last byte.
final class ForgetfulLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its superclass; it has nothing of its own.
    override func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try await super.add(chunk.dropLast() + [(chunk.last ?? 0) ^ 1], to: draft, in: database)
    }
}
