import ArgumentParser
import ServiceKit

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

    /// The resulting options, with the settings of the configuration file.
    /// - Throws: `SRV-0104` if a number is too small.
    public func options(_ configuration: ServiceConfiguration) throws(ServiceError) -> HousekeepingOptions {
        var options = HousekeepingOptions()
        if let hours = try configuration.number(tombstoneTTLHours, "tombstoneTTLHours") {
            options.tombstoneTimeToLive = hours == 0 ? nil : .seconds(Int64(hours) * 3_600)
        }
        if let count = try configuration.number(snapshotOperations, "snapshotOperations") {
            options.snapshotOperations = count == 0 ? nil : count
        }
        if let count = try configuration.number(keptOperations, "keptOperations") {
            options.keptOperations = count
        }
        if let seconds = try configuration.number(housekeepingSeconds, "housekeepingSeconds", least: 1) {
            options.interval = .seconds(Int64(seconds))
        }
        return options
    }
}
