import ArgumentParser

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

    /// The defaults.
    public init() {}
}

/// The flags of housekeeping.
public struct HousekeepingFlags: ParsableArguments, Sendable {
    /// In hours.
    @Option(
        help: ArgumentHelp(
            "Age at which deletions are forgotten (default 720; 0: never).", valueName: "hours"))
    public var tombstoneTTLHours: UInt32?

    /// In operations.
    @Option(
        help: ArgumentHelp(
            "Operations between two snapshots of the log (default 100000; 0: keep all).",
            valueName: "operations"))
    public var snapshotOperations: UInt64?

    /// In operations.
    @Option(
        help: ArgumentHelp(
            "Operations that stay readable behind a snapshot (default 10000).", valueName: "operations"))
    public var keptOperations: UInt64?

    /// Empty, for the parser.
    public init() {}

    /// The options that the flags come to.
    public var options: HousekeepingOptions {
        var options = HousekeepingOptions()
        if let hours = tombstoneTTLHours {
            options.tombstoneTimeToLive = hours == 0 ? nil : .seconds(Int64(hours) * 3_600)
        }
        if let count = snapshotOperations { options.snapshotOperations = count == 0 ? nil : count }
        if let count = keptOperations { options.keptOperations = count }
        return options
    }
}
