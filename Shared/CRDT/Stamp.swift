/// One lifetime of one store: 64 random bits. The log registers an actor and binds it to the peer key that
/// registered it.
public struct ActorID: Hashable, Comparable, Sendable {
    /// The 64 bits, as drawn.
    public let rawValue: UInt64
    /// An actor of these bits.
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    /// Numeric order. Encodings sort actors by their big-endian bytes, which is the same order.
    public static func < (left: ActorID, right: ActorID) -> Bool { left.rawValue < right.rawValue }
}

extension ActorID: CustomStringConvertible {
    /// Sixteen hexadecimal digits.
    public var description: String {
        let digits = String(rawValue, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// A hybrid logical timestamp: 48 bits of Unix milliseconds above 16 bits of counter, compared as one number.
public typealias Timestamp = UInt64

/// The author and time of a write. Orders last-write-wins, and is the dot of causal add-wins. A stamp is
/// issued once, with one content.
public struct Stamp: Hashable, Comparable, Sendable {
    /// The hybrid logical time.
    public let time: Timestamp
    /// The actor that drew it.
    public let actor: ActorID

    /// A stamp of this time and actor.
    public init(time: Timestamp, actor: ActorID) {
        self.time = time
        self.actor = actor
    }

    /// By time, ties by actor.
    public static func < (left: Stamp, right: Stamp) -> Bool {
        (left.time, left.actor) < (right.time, right.actor)
    }
}
