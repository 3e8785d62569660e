/// The place of an entry in a database's log. Offsets are contiguous from 1; 0 stands before the first entry,
/// for a log or a fold that has nothing yet.
public struct Offset: Hashable, Sendable {
    /// The number, as encodings and stores hold it.
    public let rawValue: UInt64
    /// The place with this number.
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// Greater than any entry's offset: a bound that excludes nothing.
    public static let max = Offset(.max)

    /// The place one after this one.
    public var next: Offset { Offset(rawValue + 1) }
    /// The place one before this one. Traps at 0.
    public var previous: Offset { Offset(rawValue - 1) }
    /// The place `count` entries before this one; 0 where there are fewer.
    public func reduced(by count: UInt64) -> Offset { rawValue > count ? Offset(rawValue - count) : 0 }
}

extension Offset: Strideable {
    /// By number: the earlier entry first.
    public static func < (left: Offset, right: Offset) -> Bool { left.rawValue < right.rawValue }
    /// The same place.
    public static func == (left: Offset, right: Offset) -> Bool { left.rawValue == right.rawValue }

    /// The number of entries from here to `other`; negative when `other` comes first.
    public func distance(to other: Offset) -> Int { rawValue.distance(to: other.rawValue) }
    /// The place `count` entries after this one, or before it when negative. Traps below 0.
    public func advanced(by count: Int) -> Offset { Offset(rawValue.advanced(by: count)) }
}

extension Offset: ExpressibleByIntegerLiteral {
    /// The place with the number of the literal.
    public init(integerLiteral number: UInt64) { rawValue = number }
}

extension Offset: CustomStringConvertible {
    /// The number in decimal digits.
    public var description: String { String(rawValue) }
}
