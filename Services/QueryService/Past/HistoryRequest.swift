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

    /// The answer, as JSON: the document at a point, or the document's latest changes.
    /// - Throws: as `DocumentHistory.find`.
    func answer(of history: DocumentHistory) async throws -> [UInt8] {
        let (past, database, key) = (history.past, history.database, key)
        if let point = at {
            let offset = try await past.offset(of: point, in: database)
            let found = try await history.find(through: offset, limit: 0)
            return try await history.evaluation.run {
                let document = try found.state.flatMap { try $0.visibleDocument(key.id) }
                var body = ObjectValue([
                    (key: "transactionId", value: .int(Int64(clamping: offset.rawValue))),
                    (key: "document", value: document ?? .null),
                ])
                body.noteUnwritableNumber()
                return JSONText.bytes(.object(body))
            }
        }
        let head = try await past.log.head(of: database).offset
        let last = min(before.map(\.previous) ?? .max, head)
        let found = try await history.find(through: last, limit: limit)
        var authors: [ActorID: String] = [:]
        for actor in Set(found.entries.map(\.stamp.actor)) {
            authors[actor] = try await past.log.frontier(of: [actor], in: database)[actor]?.authorKey
        }
        let (known, evaluation) = (authors, history.evaluation)
        return try await evaluation.run {
            let offsets = Dictionary(
                found.entries.map { ($0.stamp, $0.offset) }, uniquingKeysWith: { first, _ in first })
            let entries = try found.entries.reversed().map {
                try evaluation.checkEnd()
                return try $0.value(author: known[$0.stamp.actor] ?? "", offsets: offsets)
            }
            return JSONText.bytes([
                "collection": .string(key.collection.text), "id": key.id.value, "entries": .array(entries),
                "more": .bool(found.hasMore), "oldest": .int(Int64(clamping: found.oldest.rawValue)),
                "complete": .bool(found.oldest == 0),
            ])
        }
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
