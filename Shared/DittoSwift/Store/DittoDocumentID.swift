import CRDT
import DQL
import Foundation

/// A document's id: text, an integer, a boolean, binary data, or an array or dictionary of these. Two ids
/// are equal if their content is; strings are compared by bytes.
public struct DittoDocumentID: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral,
    CustomStringConvertible
{
    let content: CRDT.Value

    init(content: CRDT.Value) { self.content = content }

    /// An id from a value as in a document. A value that documents cannot hold gives the id `null`, which no
    /// document has.
    public init(value: Any?) {
        content = (try? Arguments.value(value as Any, path: "_id", depth: 0)) ?? .null
    }

    /// A text.
    public init(stringLiteral value: String) { content = .string(value) }
    /// An integer.
    public init(integerLiteral value: Int) { content = .int(Int64(value)) }
    /// A boolean.
    public init(booleanLiteral value: Bool) { content = .bool(value) }
    /// An array of such values.
    public init(arrayLiteral elements: Any?...) { self.init(value: elements) }
    /// A dictionary of such values; of a key that stands twice, the later value.
    public init(dictionaryLiteral elements: (String, Any?)...) {
        self.init(value: Dictionary(elements, uniquingKeysWith: { $1 }))
    }

    /// The id as a value of a document.
    public var value: Any? { content.plain }
    /// The text, or nil for any other type.
    public var string: String? { content.stringValue }
    /// The text, or "" for any other type.
    public var stringValue: String { content.stringValue ?? "" }
    /// The integer, or 0 for any other type.
    public var intValue: Int { content.intValue.map(Int.init) ?? 0 }
    /// The id as a query of the 4.x API writes it: `"_id == \(id.toString())"`. Binary data, which that
    /// language cannot write, is base64 text.
    public func toString() -> String {
        LegacyQuery.literal(content) ?? JSONText.print(content, sortedKeys: true)
    }
    /// The text of a text id; any other id as JSON.
    public var description: String { content.stringValue ?? JSONText.print(content, sortedKeys: true) }

    /// True if the content is equal.
    public static func == (left: DittoDocumentID, right: DittoDocumentID) -> Bool {
        left.content == right.content
    }
    /// Hashes the content.
    public func hash(into hasher: inout Hasher) { hasher.combine(CBOR.encode(content)) }
}
