import CRDT
import Hummingbird
import ServiceKit

/// A request for a document's history, read from its path and query.
struct HistoryRequest: Sendable {
    /// The document that the path names; of two readings the likelier one first.
    let keys: [DocumentKey]
    /// Their collection.
    let collection: CollectionName
    /// Entries before this offset; nil for all.
    let before: Offset?
    let limit: Int
    /// The offset at which the whole document is wanted instead.
    let at: PastPoint?

    /// - Throws: `SRV-0400`, `QUERY-0101`.
    init(_ request: Request, _ context: ServiceContext) throws {
        keys = try Self.keys(context)
        collection = try Self.collection(context)
        let query = try QueryValues(request)
        before = try query.whole("before", in: 1...UInt64.max).map { Offset($0) }
        limit = Int(try query.whole("limit", in: 1...Limits.historyRows) ?? 100)
        at = try query.text("at").map { try PastPoint($0, of: "at") }
    }

    /// The answer, as JSON: the document at a point, or the document's latest changes.
    /// - Parameters:
    ///   - first: the document that the path names.
    ///   - others: what it names if there never was that one.
    /// - Throws: as `DocumentHistory.find`.
    func answer(of first: DocumentHistory, or others: [DocumentHistory]) async throws -> [UInt8] {
        let (past, database) = (first.past, first.database)
        func find(through last: Offset, limit: Int) async throws -> (DocumentHistory, DocumentHistory.Found) {
            var found = (first, try await first.find(through: last, limit: limit))
            for other in others where found.1.state == nil && found.1.entries.isEmpty {
                found = (other, try await other.find(through: last, limit: limit))
            }
            return found
        }
        if let point = at {
            let offset = try await past.offset(of: point, in: database, first.evaluation)
            let (history, found) = try await find(through: offset, limit: 0)
            let key = history.key
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
        let (history, found) = try await find(through: last, limit: limit)
        let key = history.key
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

    /// The ids that an id in a path can mean: JSON, and the text itself, such as 777 or true. A
    /// route takes the JSON of both if there is such a document.
    /// - Throws: `QUERY-0101`.
    static func ids(_ text: String) throws -> [DocumentID] {
        var values: [Value] = [.string(text)]
        if let first = text.utf8.first, "{[\"0123456789-tf".utf8.contains(first),
            let value = try? JSONText.parse(text)
        {
            if case .string = value { values = [value] } else { values.insert(value, at: 0) }
        }
        let ids = values.compactMap { try? DocumentID($0) }
        guard !ids.isEmpty else {
            throw QueryError(.malformedRequest, "the path's id cannot be the id of a document")
        }
        return ids
    }

    /// The documents that a path can mean.
    static func keys(_ context: ServiceContext) throws -> [DocumentKey] {
        let collection = try collection(context)
        return try ids(context.parameters.require("id")).map { DocumentKey(collection: collection, id: $0) }
    }
}
