/// Names the sessions of one instance so that no other instance has a session of the same name: by a number,
/// and by a text with the instance's own name in it.
struct SessionNames: Sendable {
    /// The name of the instance.
    let instance: String
    /// The upper bits of every number. With a session's own number they stay below 2^53, so that every
    /// language reads them from JSON.
    private let upper: UInt64

    private static let ownBits: UInt64 = 32

    /// Drawn by chance: two of ten instances have the same upper bits once in 46,000 times.
    init(random: () -> UInt64 = { UInt64.random(in: .min ... .max) }) {
        let drawn = random()
        instance = String(drawn, radix: 36)
        upper = (drawn & 0x1f_ffff) << Self.ownBits
    }

    /// The number that tells a session from all others.
    func number(of session: UInt64) -> UInt64 { upper | session & (1 << Self.ownBits - 1) }

    /// `INSTANCE-NUMBER`.
    func name(of session: UInt64) -> String { "\(instance)-\(number(of: session))" }

    /// The session of this instance with a number or name; nil if the text is neither.
    func session(_ text: String) -> UInt64? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 1 || parts.count == 2 && parts[0] == instance,
            let number = parts.last.flatMap({ UInt64($0) }), self.number(of: number) == number
        else { return nil }
        return number & (1 << Self.ownBits - 1)
    }
}
