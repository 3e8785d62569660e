import CRDT
import DQL
import Foundation

/// One document as it was when it was read.
@available(*, deprecated, message: "Use DittoQueryResultItem")
public final class DittoDocument: Identifiable, CustomStringConvertible, Sendable {
    let row: KeptRow

    init(_ row: KeptRow) { self.row = row }

    /// The document's id.
    public var id: DittoDocumentID { row.documentID }

    /// All fields, `_id` included.
    public var value: [String: Any?] { row.decoded.objectValue?.plain ?? [:] }

    /// The place of a field, whether it exists or not.
    public subscript(key: String) -> DittoDocumentPath {
        DittoDocumentPath(LegacyPlace(source: .snapshot(row), steps: [.key(key)]))
    }

    /// The document as a type of the application.
    /// - Throws: `storeError(.queryError)` when a field is missing or has another type.
    public func typed<T: Decodable>(as type: T.Type) throws -> DittoTypedDocument<T> {
        DittoTypedDocument(id: id, value: try DittoQueryResultItem(row).decode(as: type))
    }

    /// The document as JSON.
    public var description: String { JSONText.print(row.decoded) }
}

/// A document as a type of the application.
@available(*, deprecated, message: "Use DittoQueryResultItem.decode(as:)")
public struct DittoTypedDocument<Content> {
    /// The document's id.
    public let id: DittoDocumentID
    /// The document.
    public let value: Content
}

extension KeptRow {
    /// The id of a row that is a document.
    var documentID: DittoDocumentID { DittoDocumentID(content: ((try? field("_id")) ?? nil) ?? .null) }
}
