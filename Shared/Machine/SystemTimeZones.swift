import Foundation

/// The time zones of this machine, for the date functions of statements.
public struct SystemTimeZones: Sendable {
    /// A lookup that loads no table before its first use.
    public init() {}

    /// Returns the offset from UTC, in seconds, at a Unix time in milliseconds; nil for a zone that is not in
    /// the system's tables. The system caches them.
    public func offsetSeconds(of zone: String, at milliseconds: Int64) -> Int? {
        // Foundation also takes abbreviations, which are ambiguous.
        guard zone.contains("/"), let zone = TimeZone(identifier: zone) else { return nil }
        return zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(milliseconds) / 1_000))
    }
}
