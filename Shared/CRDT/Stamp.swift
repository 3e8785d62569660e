/// One lifetime of one store: 64 random bits, registered with the log and bound to the peer key that
/// registered it.
public struct ActorID: Hashable, Comparable, Sendable {
    /// The 64 bits, as drawn.
    public let rawValue: UInt64
    /// An actor of these bits.
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    /// Numeric order; on the wire and in encodings actors sort by their big-endian bytes, which is the same.
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

/// Who wrote and when: orders last-write-wins and is the dot of causal add-wins. Issued once, with one
/// content.
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
