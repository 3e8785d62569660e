/// Time and randomness as a store sees them: injected, so that a simulation can hand in its own.
public struct Environment: Sendable {
    /// Unix time in milliseconds; may jump either way.
    public let wallMilliseconds: @Sendable () -> UInt64
    /// 64 random bits.
    public let random: @Sendable () -> UInt64
    /// Blocks the calling thread. A store pauses only while it waits for its directory's lock.
    public let pause: @Sendable (Duration) -> Void

    /// An environment with these sources.
    public init(
        wallMilliseconds: @escaping @Sendable () -> UInt64, random: @escaping @Sendable () -> UInt64,
        pause: @escaping @Sendable (Duration) -> Void
    ) {
        self.wallMilliseconds = wallMilliseconds
        self.random = random
        self.pause = pause
    }

    /// UUID version 7 as text, in lower case (RFC 9562: milliseconds, then randomness).
    public func generateUUID() -> String {
        let time = wallMilliseconds() & 0xFFFF_FFFF_FFFF
        let high = time << 16 | 0x7000 | random() & 0x0FFF
        let low = random() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        let digits = [high, low].map { word in
            let text = String(word, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
        var text = ""
        for (index, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(index) { text.append("-") }
            text.append(digit)
        }
        return text
    }
}
