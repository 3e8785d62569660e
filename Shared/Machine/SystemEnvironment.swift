import Foundation

/// The machine's clock, in Unix time; may jump either way.
public enum SystemClock {
    /// Whole milliseconds since 1970; 0 before.
    public static let milliseconds: @Sendable () -> UInt64 = {
        UInt64(max(0, Date().timeIntervalSince1970 * 1_000))
    }
    /// Whole seconds since 1970, as tokens and certificates count them.
    public static let seconds: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
    /// Seconds since 1970 with their fraction.
    public static let exactSeconds: @Sendable () -> Double = { Date().timeIntervalSince1970 }
}

extension Environment {
    /// The machine's clock and randomness.
    public static let system = Environment(
        wallMilliseconds: SystemClock.milliseconds,
        random: { UInt64.random(in: .min ... .max) },
        pause: { duration in
            let parts = duration.components
            Thread.sleep(forTimeInterval: Double(parts.seconds) + Double(parts.attoseconds) / 1e18)
        })
}
