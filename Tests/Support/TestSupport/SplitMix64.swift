/// A seeded generator (SplitMix64 by Sebastiano Vigna): the same seed gives the same history on every
/// machine and with every version of the standard library, whose own `random(in:using:)` promises no such
/// thing. Tests draw through the methods here, print their seed when they fail, and can be replayed from it.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// A generator that starts from this seed.
    public init(seed: UInt64) { state = seed }

    /// The next 64 bits.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }

    /// A number from 0 up to and without `bound`, which must be positive.
    public mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// True in `percent` of a hundred draws.
    public mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    /// One element of a collection that is not empty.
    public mutating func pick<Choices: RandomAccessCollection>(_ choices: Choices) -> Choices.Element {
        choices[choices.index(choices.startIndex, offsetBy: below(choices.count))]
    }

    /// Random bytes.
    public mutating func bytes(count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }
}
