import CRDT
import OperationLog

/// The actor that a service writes a database with: leased from the log when it is first needed, held while
/// the process lives, given back at its end (see `ActorLease`).
///
/// Actor isolation guards `current`. Its times only say when to ask the log again; what counts is the log's
/// clock.
public actor LeasedActor {
    private let log: any OperationLog
    private let database: DatabaseID
    private let purpose: String
    private let slots: Int
    private let duration: Duration
    private var current: (lease: ActorLease, renewal: ContinuousClock.Instant)?

    /// Leases nothing yet.
    public init(
        log: any OperationLog, database: DatabaseID, purpose: String, slots: Int = Limits.actorSlots,
        duration: Duration = Limits.actorLease
    ) {
        self.log = log
        self.database = database
        self.purpose = purpose
        self.slots = slots
        self.duration = duration
    }

    /// The lease to write under now. Of a fresh one the writer must first have folded what its actor has
    /// written for the holder before: everything up to the log's head of now.
    /// - Throws: `LOG-0302` while others hold all slots, and what the log throws.
    public func lease() async throws -> (lease: ActorLease, isFresh: Bool) {
        if let current {
            if ContinuousClock.now < current.renewal { return (current.lease, false) }
            let renewal = ContinuousClock.now + duration / 2
            if try await log.renew(current.lease, for: duration, in: database) {
                if self.current?.lease == current.lease { self.current?.renewal = renewal }
                return (current.lease, false)
            }
            if self.current?.lease == current.lease { self.current = nil }
        }
        let renewal = ContinuousClock.now + duration / 2
        guard let lease = try await log.lease(purpose, of: slots, for: duration, in: database) else {
            throw OperationLogError(
                .busy, "all \(slots) actors for \(purpose) are in use", database: database)
        }
        if let current {
            // Another caller was faster while this one waited.
            try? await log.release(lease, retiring: false, in: database)
            return (current.lease, true)
        }
        current = (lease, renewal)
        return (lease, true)
    }

    /// The log did not take the lease any more, or knows its actor otherwise: the next one is another.
    public func lose(_ lease: ActorLease, retiring: Bool = false) async {
        if current?.lease == lease { current = nil }
        // If that fails too it runs out by itself.
        try? await log.release(lease, retiring: retiring, in: database)
    }

    /// Gives the lease back.
    public func close() async {
        if let lease = current?.lease { await lose(lease) }
    }
}
