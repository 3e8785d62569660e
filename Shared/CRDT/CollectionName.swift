/// The name of a collection.
///
/// Names are equal when their UTF-8 bytes are, and sort by those bytes. `String` compares canonical
/// equivalence instead: it would merge "é" in one code point with "é" in two, which are two collections in
/// every store, on the wire and in other languages. The type accepts any text; `Limits.collectionNameBytes`
/// is checked where names enter.
public struct CollectionName: Hashable, Sendable {
    /// The name as it was given.
    public let text: String
    /// A collection of this name.
    public init(_ text: String) { self.text = text }

    /// Equal when both names have the same bytes.
    public static func == (left: CollectionName, right: CollectionName) -> Bool {
        utf8Equal(left.text, right.text)
    }

    /// Hashes the bytes that equality compares.
    public func hash(into hasher: inout Hasher) { hashUTF8(text, into: &hasher) }
}

extension CollectionName: Comparable {
    /// By the names' bytes.
    public static func < (left: CollectionName, right: CollectionName) -> Bool {
        utf8Precedes(left.text, right.text)
    }
}

extension CollectionName: ExpressibleByStringLiteral {
    /// The name in a literal.
    public init(stringLiteral text: String) { self.text = text }
}

extension CollectionName: CustomStringConvertible {
    /// The name as it was given.
    public var description: String { text }
}

extension CollectionName: CustomDebugStringConvertible {
    /// The name in quotes, as a `String` has it.
    public var debugDescription: String { text.debugDescription }
}
