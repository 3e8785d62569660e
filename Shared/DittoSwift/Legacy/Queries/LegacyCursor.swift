import CRDT
import DQL
import Foundation
import Synchronization

/// A query of the 4.x API on its way to `exec` and the like.
final class LegacyCursor: Sendable {
    let collection: LegacyCollection
    private let chosen: Mutex<LegacySelection>
    private let arguments: Result<ObjectValue, SDKError>

    init(_ collection: LegacyCollection, _ query: String?, _ given: [String: Any?]) {
        self.collection = collection
        chosen = Mutex(LegacySelection(query))
        arguments = Result { () throws(SDKError) in try Arguments.object(given) }
    }

    /// The condition, order and window so far.
    var selection: LegacySelection { chosen.withLock { $0 } }

    /// The query as the application wrote it; `true` for all documents.
    var query: String { selection.condition ?? "true" }

    /// Limits the number of documents; a negative number is no limit. The last call counts.
    func limit(_ limit: Int32) { chosen.withLock { $0.limit = limit < 0 ? nil : Int64(limit) } }

    /// Skips the first documents. The last call counts.
    func offset(_ offset: UInt32) { chosen.withLock { $0.offset = Int64(offset) } }

    /// Sorts; further calls sort documents that the earlier ones do not part.
    func sort(_ expression: String, isDescending: Bool) {
        chosen.withLock { $0.order.append((expression: expression, isDescending: isDescending)) }
    }

    /// The statement, and the arguments it needs.
    func parts(_ verb: LegacySelection.Verb) throws -> LegacyCollection.Parts {
        try parts(verb, selection)
    }

    /// The statement without order and window, as a subscription.
    func subscriptionParts() throws -> LegacyCollection.Parts {
        _ = try collection.quoted()
        let query = try LegacyQuery.statement(self.query, from: collection.name)
        let isForAll = selection.condition == nil
        return LegacyCollection.Parts(
            statement: isForAll ? "SELECT * FROM \(try collection.quoted())" : query,
            arguments: try arguments.get())
    }

    private func parts(
        _ verb: LegacySelection.Verb, _ selection: LegacySelection
    ) throws -> LegacyCollection.Parts {
        LegacyCollection.Parts(
            statement: try collection.statement(verb, selection), arguments: try arguments.get())
    }

    /// The documents; none, and an entry in the log, when it fails.
    func exec() -> [KeptRow] {
        do {
            let parts = try parts(.select)
            return try collection.rows(parts.statement, parts.arguments)
        } catch {
            collection.store.unthrown.report("exec", error)
            return []
        }
    }

    /// Removes the documents everywhere. Returns their ids.
    func remove() -> [DittoDocumentID] { collection.remove(.removed, "remove") { try parts(.delete) } }

    /// Removes the documents from this device only. Returns their ids.
    func evict() -> [DittoDocumentID] { collection.remove(.evicted, "evict") { try parts(.evict) } }

    /// Calls a closure with all documents, once, and returns its changes.
    func update(_ body: ([EditedDocument]) -> Void) -> (ids: [DittoDocumentID], entries: [LegacyUpdate.Entry])
    {
        do {
            let parts = try parts(.select)
            return try collection.writing("update") { transaction in
                let update = LegacyUpdate(collection, transaction)
                defer { update.close() }
                let rows = try transaction.run(parts.statement, parts.arguments).items
                let documents = rows.map { EditedDocument($0.kept, update) }
                body(documents)
                transaction.note(.updated, update.ids, collection.name)
                return (documents.map(\.id), update.entries)
            }
        } catch {
            collection.store.unthrown.report("update", error)
            return ([], [])
        }
    }
}

/// One document of the 4.x API, by its id.
struct LegacyPoint: Sendable {
    let collection: LegacyCollection
    let id: DittoDocumentID

    init(_ collection: LegacyCollection, _ id: DittoDocumentID) {
        self.collection = collection
        self.id = id
    }

    /// The id as a query writes it.
    var query: String { "_id == \(id.toString())" }

    /// A statement over the document.
    /// - Throws: `CRDTError` for an id that no document can have.
    func parts(_ verb: String) throws -> LegacyCollection.Parts {
        _ = try DocumentID(id.content)
        return LegacyCollection.Parts(
            statement: try collection.statement(byID: verb), arguments: .one("id", id.content))
    }

    /// The document; nil when there is none. A failure goes to the log.
    func exec() -> KeptRow? {
        do {
            let parts = try parts("SELECT *")
            return try collection.rows(parts.statement, parts.arguments).first
        } catch {
            collection.store.unthrown.report("exec", error)
            return nil
        }
    }

    /// Removes the document everywhere. Returns false when there is none.
    func remove() -> Bool { !collection.remove(.removed, "remove") { try parts("DELETE") }.isEmpty }

    /// Removes the document from this device only. Returns false when there is none.
    func evict() -> Bool { !collection.remove(.evicted, "evict") { try parts("EVICT") }.isEmpty }

    /// Calls a closure with the document, or with nil, and returns its changes.
    func update(_ body: (EditedDocument?) -> Void) -> [LegacyUpdate.Entry] {
        do {
            let parts = try parts("SELECT *")
            return try collection.writing("update") { transaction in
                let update = LegacyUpdate(collection, transaction)
                defer { update.close() }
                let row = try transaction.run(parts.statement, parts.arguments).items.first?.kept
                body(row.map { EditedDocument($0, update) })
                transaction.note(.updated, update.ids, collection.name)
                return update.entries
            }
        } catch {
            collection.store.unthrown.report("update", error)
            return []
        }
    }
}

extension LegacyUpdate {
    /// The documents that were changed, each once, in order.
    fileprivate var ids: [DittoDocumentID] {
        var seen: Set<DittoDocumentID> = []
        return entries.map(\.id).filter { seen.insert($0).inserted }
    }
}
