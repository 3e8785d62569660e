import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log before whose first append somebody else writes: between a draft and its append.
final class MeddledLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its base is: what it adds is guarded by a lock.
    private struct Meddling {
        var next: (@Sendable () async throws -> Void)?
        var attempts = 0
    }
    private let meddling = Mutex(Meddling())

    /// Does this before the next append, and counts the appends from there on.
    func meddle(_ body: @escaping @Sendable () async throws -> Void) {
        meddling.withLock { $0 = Meddling(next: body) }
    }

    /// The appends since the last `meddle`.
    var attempts: Int { meddling.withLock { $0.attempts } }

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        let next = meddling.withLock { state in
            defer { state.next = nil }
            state.attempts += 1
            return state.next
        }
        try await next?()
        return try await super.append(requests, to: database)
    }
}
