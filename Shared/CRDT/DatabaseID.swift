/// The id of a database.
///
/// Ids are equal when their UTF-8 bytes are, and sort by those bytes. The type accepts any text: tokens and
/// logs each check the form that they allow (`Identity` and `OperationLog` extend this type with the rules).
public struct DatabaseID: Hashable, Sendable {
    /// The id as it was given.
    public let text: String
    /// A database of this id.
    public init(_ text: String) { self.text = text }

    /// Equal when both ids have the same bytes.
    public static func == (left: DatabaseID, right: DatabaseID) -> Bool { utf8Equal(left.text, right.text) }

    /// Hashes the bytes that equality compares.
    public func hash(into hasher: inout Hasher) { hashUTF8(text, into: &hasher) }
}

extension DatabaseID: Comparable {
    /// By the ids' bytes.
    public static func < (left: DatabaseID, right: DatabaseID) -> Bool {
        utf8Precedes(left.text, right.text)
    }
}

extension DatabaseID: ExpressibleByStringLiteral {
    /// The id in a literal.
    public init(stringLiteral text: String) { self.text = text }
}

extension DatabaseID: CustomStringConvertible {
    /// The id as it was given.
    public var description: String { text }
}

extension DatabaseID: CustomDebugStringConvertible {
    /// The id in quotes, as a `String` has it.
    public var debugDescription: String { text.debugDescription }
}
