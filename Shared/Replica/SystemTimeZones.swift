import DQL
import Foundation

/// The time zones of this machine, for the date functions of statements.
public struct SystemTimeZones: TimeZoneRules {
    /// Knows nothing until it is asked.
    public init() {}

    /// Looked up in the system's tables; the system caches them.
    public func offsetSeconds(of zone: String, at milliseconds: Int64) -> Int? {
        // Foundation also takes abbreviations, which mean different zones to different people.
        guard zone.contains("/"), let zone = TimeZone(identifier: zone) else { return nil }
        return zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(milliseconds) / 1_000))
    }
}
