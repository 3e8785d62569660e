/// A hybrid logical clock: it never runs backwards, even when the wall clock does.
///
/// Pure: the caller passes the wall time. Invariant: every timestamp drawn exceeds every timestamp drawn or
/// observed before. To keep the clock monotone across restarts, store `latest` with the data.
public struct HybridClock: Sendable, Equatable {
    /// The greatest timestamp drawn or observed so far.
    public private(set) var latest: Timestamp

    /// A clock that has seen everything up to `latest`.
    public init(latest: Timestamp = 0) { self.latest = latest }

    /// Takes note of another store's timestamp, so that the next one drawn exceeds it.
    public mutating func observe(_ timestamp: Timestamp) { latest = max(latest, timestamp) }

    /// Leaves out `count` timestamps: the next one drawn exceeds `latest` by more than `count`.
    public mutating func skip(_ count: UInt64) {
        latest = latest < Timestamp.max - count ? latest + count : latest
    }

    /// Draws a timestamp. `wallMilliseconds` is Unix time. When the counter overflows, it carries into the
    /// milliseconds.
    public mutating func next(wallMilliseconds: UInt64) -> Timestamp {
        precondition(latest < Timestamp.max, "the hybrid clock is exhausted")
        latest = max(wallMilliseconds << 16, latest + 1)
        return latest
    }

    /// The wall-clock part of a timestamp, in Unix milliseconds.
    public static func milliseconds(of timestamp: Timestamp) -> UInt64 { timestamp >> 16 }

    /// Returns whether a timestamp is further ahead of `wallMilliseconds` than admission allows (rule 21).
    public static func isTooFarAhead(_ timestamp: Timestamp, wallMilliseconds: UInt64) -> Bool {
        milliseconds(of: timestamp) > wallMilliseconds + Limits.clockFutureMilliseconds
    }

    /// As above, for a log that holds timestamps up to `admitted`, which may be too far ahead themselves. A
    /// timestamp at most one millisecond after them is allowed: it does no further harm, and a store that
    /// has seen them can write no earlier one (decision 0009).
    public static func isTooFarAhead(
        _ timestamp: Timestamp, wallMilliseconds: UInt64, admitted: Timestamp
    ) -> Bool {
        isTooFarAhead(timestamp, wallMilliseconds: wallMilliseconds)
            && milliseconds(of: timestamp) > milliseconds(of: admitted) + 1
    }
}
