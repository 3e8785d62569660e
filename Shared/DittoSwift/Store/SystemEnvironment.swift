import Foundation
import Replica

extension Environment {
    /// The system's clock and randomness.
    static let system = Environment(
        wallMilliseconds: { UInt64(max(0, Date().timeIntervalSince1970 * 1_000)) },
        random: { UInt64.random(in: .min ... .max) },
        pause: { duration in
            let parts = duration.components
            Thread.sleep(forTimeInterval: Double(parts.seconds) + Double(parts.attoseconds) / 1e18)
        })
}
