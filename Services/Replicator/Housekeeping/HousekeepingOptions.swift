/// What bounds the storage of a database: reaping, snapshots, truncation.
public struct HousekeepingOptions: Sendable, Hashable {
    /// How old tombstones become before they are reaped; nil reaps none. Not less than any peer's, or a peer
    /// could keep deletions that the server has forgotten.
    public var tombstoneTimeToLive: Duration? = Limits.tombstoneTimeToLive
    /// Between two searches for such tombstones.
    public var reapingInterval = Limits.reapingInterval
    /// Operations behind the last snapshot that make a new one worth it; nil makes none, and the log grows.
    public var snapshotOperations: UInt64? = Limits.snapshotOperations
    /// Of those that the snapshot stands for so many stay, for services that are a little behind.
    public var keptOperations = Limits.keptOperations
    /// Between two looks at what is due.
    public var interval = Limits.housekeepingInterval
    /// How long a process has to show that it still does it, before another one may.
    var lease: Duration { max(interval * 2, Limits.shortestHousekeepingLease) }

    /// The defaults.
    public init() {}
}
