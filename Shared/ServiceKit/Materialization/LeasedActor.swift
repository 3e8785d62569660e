import CRDT
import OperationLog

/// The CRDT actor that a service writes a database with: leased from the log at first use, renewed while the
/// process lives, released at its end (see `ActorLease`).
///
/// Actor isolation guards `held`. Its times only say when to renew; the lease expires by the log's clock.
public actor LeasedActor {
    private let log: any OperationLog
    private let database: DatabaseID
    private let purpose: String
    private let slots: Int
    private let duration: Duration
    private var current: (lease: ActorLease, renewal: ContinuousClock.Instant)?

    /// Takes no lease yet.
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

    /// The lease to write under now. If it is fresh, the writer must first fold the log up to its present
    /// head: the actor's previous holder may have written operations up to there.
    /// - Throws: `LOG-0302` while others hold all slots, and the log's errors.
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
                .busy, "all \(slots) actors for \(purpose) are in use; try again shortly", database: database)
        }
        if let current {
            // Another caller was faster while this one waited.
            try? await log.release(lease, retiring: false, in: database)
            return (current.lease, true)
        }
        current = (lease, renewal)
        return (lease, true)
    }

    /// Gives up a lease that the log no longer accepts, or whose actor it knows differently. The next call
    /// of `lease` takes another one.
    public func lose(_ lease: ActorLease, retiring: Bool = false) async {
        if current?.lease == lease { current = nil }
        // If this fails too, the lease expires by itself.
        try? await log.release(lease, retiring: retiring, in: database)
    }

    /// Releases the lease.
    public func close() async {
        if let lease = current?.lease { await lose(lease) }
    }
}
