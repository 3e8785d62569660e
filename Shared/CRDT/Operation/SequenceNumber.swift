/// The place of an operation among those of its actor. Numbers are contiguous from 1; 0 stands before the
/// first operation, for an actor that has written nothing yet.
///
/// Not `Sequence`, the word that comments use: that would shadow the standard library's protocol.
public struct SequenceNumber: Hashable, Sendable {
    /// The number, as encodings and stores hold it.
    public let rawValue: UInt64
    /// The place with this number.
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// Greater than any operation's number: a bound that excludes nothing.
    public static let max = SequenceNumber(.max)

    /// The number of the actor's next operation.
    public var next: SequenceNumber { SequenceNumber(rawValue + 1) }
    /// The number of the operation before. Traps at 0.
    public var previous: SequenceNumber { SequenceNumber(rawValue - 1) }
}

extension SequenceNumber: Strideable {
    /// By number: the earlier operation first.
    public static func < (left: SequenceNumber, right: SequenceNumber) -> Bool {
        left.rawValue < right.rawValue
    }
    /// The same place.
    public static func == (left: SequenceNumber, right: SequenceNumber) -> Bool {
        left.rawValue == right.rawValue
    }

    /// The number of operations from here to `other`; negative when `other` comes first.
    public func distance(to other: SequenceNumber) -> Int { rawValue.distance(to: other.rawValue) }
    /// The place `count` operations after this one, or before it when negative. Traps below 0.
    public func advanced(by count: Int) -> SequenceNumber { SequenceNumber(rawValue.advanced(by: count)) }
}

extension SequenceNumber: ExpressibleByIntegerLiteral {
    /// The place with the number of the literal.
    public init(integerLiteral number: UInt64) { rawValue = number }
}

extension SequenceNumber: CustomStringConvertible {
    /// The number in decimal digits.
    public var description: String { String(rawValue) }
}
