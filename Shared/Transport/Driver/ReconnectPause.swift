/// How long to wait before the next attempt to connect: twice as long after each failure, up to a bound, and
/// each time somewhere between half and the whole of that, so that the many peers of a server that was
/// restarted do not all come back at once.
struct ReconnectPause {
    private var whole = Limits.firstReconnectPause

    /// The pause before the next attempt. `random` is 64 random bits: the more, the closer to the whole.
    mutating func next(random: UInt64) -> Duration {
        defer { whole = min(whole * 2, Limits.longestReconnectPause) }
        return whole * (0.5 + 0.5 * Double(random >> 11) / Double(1 << 53))
    }

    /// The last attempt was well: what comes next is a first failure again.
    mutating func reset() { whole = Limits.firstReconnectPause }
}
