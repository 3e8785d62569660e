import CRDT
import Hummingbird
import ServiceKit

/// A request for a document's history, read from its path and query.
struct HistoryRequest: Sendable {
    let key: DocumentKey
    /// Entries before this offset; nil for all.
    let before: Offset?
    let limit: Int
    /// The offset at which the whole document is wanted instead.
    let at: PastPoint?

    /// - Throws: `SRV-0400`, `QUERY-0101`.
    init(_ request: Request, _ context: ServiceContext) throws {
        key = DocumentKey(
            collection: try Self.collection(context), id: try Self.id(context.parameters.require("id")))
        let query = try QueryValues(request)
        before = try query.whole("before", in: 1...UInt64.max).map { Offset($0) }
        limit = Int(try query.whole("limit", in: 1...Limits.historyRows) ?? 100)
        at = try query.text("at").map { try PastPoint($0, of: "at") }
    }

    /// The collection as it stands in a path: a text, or a name in back quotes as DQL has it. Browsers take
    /// `.` and `..` for steps of the path, however they are encoded, but not these names in back quotes.
    static func collection(_ context: ServiceContext) throws -> CollectionName {
        let text = try context.parameters.require("collection")
        guard text.utf8.count > 2, text.hasPrefix("`"), text.hasSuffix("`") else {
            return CollectionName(text)
        }
        return CollectionName(String(text.dropFirst().dropLast().replacing("``", with: "`")))
    }

    /// An id as it stands in a path: JSON if it begins like JSON, else a text.
    /// - Throws: `QUERY-0101`.
    static func id(_ text: String) throws -> DocumentID {
        guard let first = text.utf8.first, "{[\"0123456789-tf".utf8.contains(first) else {
            return try made(.string(text))
        }
        // A text that only begins like JSON, such as a UUID or "tom", is a text.
        guard let value = try? JSONText.parse(text) else { return try made(.string(text)) }
        return try made(value)
    }

    private static func made(_ value: Value) throws -> DocumentID {
        do {
            return try DocumentID(value)
        } catch {
            throw QueryError(.malformedRequest, "the path's id cannot be the id of a document")
        }
    }
}
