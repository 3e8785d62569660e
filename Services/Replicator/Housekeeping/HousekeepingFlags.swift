import ArgumentParser

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

    /// In seconds.
    @Option(
        help: ArgumentHelp(
            "Time between two looks at what is due (default 60, at least 1).", valueName: "seconds"))
    public var housekeepingSeconds: UInt32?

    /// An empty value for the parser.
    public init() {}

    /// The resulting options.
    public var options: HousekeepingOptions {
        var options = HousekeepingOptions()
        if let hours = tombstoneTTLHours {
            options.tombstoneTimeToLive = hours == 0 ? nil : .seconds(Int64(hours) * 3_600)
        }
        if let count = snapshotOperations { options.snapshotOperations = count == 0 ? nil : count }
        if let count = keptOperations { options.keptOperations = count }
        if let seconds = housekeepingSeconds { options.interval = .seconds(max(1, Int64(seconds))) }
        return options
    }
}
