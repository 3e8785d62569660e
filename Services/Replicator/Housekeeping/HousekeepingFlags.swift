import ArgumentParser
import ServiceKit

/// The flags of housekeeping.
public struct HousekeepingFlags: ParsableArguments, Sendable {
    /// In hours.
    @Option(help: .setting("tombstoneTTLHours")) public var tombstoneTTLHours: UInt32?
    /// In operations.
    @Option(help: .setting("snapshotOperations")) public var snapshotOperations: UInt64?
    /// In operations.
    @Option(help: .setting("keptOperations")) public var keptOperations: UInt64?
    /// In hours.
    @Option(help: .setting("logKeepHours")) public var logKeepHours: UInt32?
    /// In bytes.
    @Option(help: .setting("logMaxBytes")) public var logMaxBytes: UInt64?
    /// In seconds.
    @Option(help: .setting("housekeepingSeconds")) public var housekeepingSeconds: UInt32?

    /// An empty value for the parser.
    public init() {}

    /// The resulting options, with environment and configuration file.
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
        if let hours = try configuration.number(logKeepHours, "logKeepHours"), hours > 0 {
            options.keptAge = .seconds(Int64(hours) * 3_600)
        }
        if let bytes = try configuration.number(logMaxBytes, "logMaxBytes"), bytes > 0 {
            options.mostBytes = bytes
        }
        if let seconds = try configuration.number(housekeepingSeconds, "housekeepingSeconds") {
            options.interval = .seconds(Int64(seconds))
        }
        return options
    }
}
