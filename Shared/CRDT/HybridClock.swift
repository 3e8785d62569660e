/// A hybrid logical clock: monotone whatever the wall clock does.
///
/// Pure: the wall time is handed in. Invariant: every timestamp drawn exceeds every one drawn or observed
/// before. Whoever stores `latest` with its data keeps the clock monotone across restarts.
public struct HybridClock: Sendable, Equatable {
    /// The greatest timestamp drawn or observed so far.
    public private(set) var latest: Timestamp

    /// A clock that has seen everything up to `latest`.
    public init(latest: Timestamp = 0) { self.latest = latest }

    /// Takes note of a foreign timestamp, so that the next one drawn exceeds it.
    public mutating func observe(_ timestamp: Timestamp) { latest = max(latest, timestamp) }

    /// Leaves some timestamps out: the next one drawn exceeds that many more.
    public mutating func skip(_ count: UInt64) {
        latest = latest < Timestamp.max - count ? latest + count : latest
    }

    /// Draws a timestamp. `wallMilliseconds` is Unix time; a counter that overflows carries into the
    /// milliseconds.
    public mutating func next(wallMilliseconds: UInt64) -> Timestamp {
        precondition(latest < Timestamp.max, "the hybrid clock is exhausted")
        latest = max(wallMilliseconds << 16, latest + 1)
        return latest
    }

    /// The wall-clock part of a timestamp, in Unix milliseconds.
    public static func milliseconds(of timestamp: Timestamp) -> UInt64 { timestamp >> 16 }

    /// Whether a stamp is further ahead of `wallMilliseconds` than admission allows (rule 21).
    public static func isTooFarAhead(_ timestamp: Timestamp, wallMilliseconds: UInt64) -> Bool {
        milliseconds(of: timestamp) > wallMilliseconds + Limits.clockFutureMilliseconds
    }

    /// As above, for a log that holds stamps up to `admitted`, which may themselves be further ahead: what
    /// follows them by a millisecond at most adds nothing to the harm, and whoever has seen them can write no
    /// earlier (decision 0009).
    public static func isTooFarAhead(
        _ timestamp: Timestamp, wallMilliseconds: UInt64, admitted: Timestamp
    ) -> Bool {
        isTooFarAhead(timestamp, wallMilliseconds: wallMilliseconds)
            && milliseconds(of: timestamp) > milliseconds(of: admitted) + 1
    }
}
