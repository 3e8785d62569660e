/// The bounds of a database's storage: reaping, snapshots, truncation.
public struct HousekeepingOptions: Sendable, Hashable {
    /// The age at which tombstones are reaped; nil reaps none. Must not be less than any peer's, or a peer
    /// could keep deletions that the server has forgotten.
    public var tombstoneTimeToLive: Duration? = Limits.tombstoneTimeToLive
    /// Interval of searching for such tombstones.
    public var reapingInterval = Limits.reapingInterval
    /// Operations after the last snapshot that make a new one worthwhile; nil makes none, and the log
    /// grows.
    public var snapshotOperations: UInt64? = Limits.snapshotOperations
    /// Operations covered by the snapshot that stay, for services that lag a little.
    public var keptOperations = Limits.keptOperations
    /// Interval of checking for due work.
    public var interval = Limits.housekeepingInterval
    /// How long after the request of an erasure the log is truncated for it: what was uploaded before the
    /// request, and is judged by an instance that has not read it, is in the log by then.
    public var erasureSettling = Limits.erasureSettling
    /// How long a process has to show that it still does it, before another one may.
    var lease: Duration { max(interval * 2, Limits.shortestHousekeepingLease) }

    /// The defaults.
    public init() {}
}
