import Attachments
import CRDT
import DQL
import Dispatch
import Foundation

/// The documents of one name.
///
/// A name has 1 to 99 characters, no U+0000, and does not begin with `$TS_`; the calls of a collection of
/// another name fail.
@available(*, deprecated, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoCollection: Sendable {
    let collection: LegacyCollection

    init(_ collection: LegacyCollection) { self.collection = collection }

    /// The collection's name.
    public var name: String { collection.name.text }

    /// The documents that fulfil a query, as in `color == 'red' && year >= 1999`.
    public func find(_ query: String) -> DittoPendingCursorOperation { find(query, args: [:]) }

    /// As above; `$args.name` in the query is the argument `name`.
    public func find(_ query: String, args: [String: Any?]) -> DittoPendingCursorOperation {
        DittoPendingCursorOperation(LegacyCursor(collection, query, args))
    }

    /// All documents.
    public func findAll() -> DittoPendingCursorOperation {
        DittoPendingCursorOperation(LegacyCursor(collection, nil, [:]))
    }

    /// The document of an id.
    public func findByID(_ id: DittoDocumentID) -> DittoPendingIDSpecificOperation {
        DittoPendingIDSpecificOperation(LegacyPoint(collection, id))
    }

    /// The document of an id: a text, an integer, a boolean, or a dictionary or array of these.
    public func findByID(_ id: Any?) -> DittoPendingIDSpecificOperation {
        DittoPendingIDSpecificOperation(LegacyPoint(collection, DittoDocumentID(value: id)))
    }

    /// Writes a document, and returns its id; one without `_id` gets one. Objects in it are merged field by
    /// field.
    /// - Throws: `storeError` for values that documents cannot hold, an id that cannot be one, and inside of
    ///   a transaction; `validationError(.sizeLimitExceeded)`.
    @discardableResult
    public func upsert(
        _ content: [String: Any?], writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { try collection.upsert(content, writeStrategy) }

    /// As above, for a value that encodes itself as an object.
    @discardableResult
    public func upsert<T: Encodable>(
        _ content: T, writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { try collection.upsert(encoding: content, writeStrategy) }

    /// Writes a document under an id.
    /// - Parameter isDefault: as default data, which every other write beats.
    @discardableResult
    public func insert(
        _ content: [String: Any?], id: Any? = nil, isDefault: Bool = false
    ) throws -> DittoDocumentID { try collection.insert(content, id, isDefault: isDefault) }

    /// Creates an attachment from a file, which is copied. Nil when that fails; the log says why.
    public func newAttachment(path: String, metadata: [String: String] = [:]) -> DittoAttachment? {
        do {
            return try collection.store.newAttachmentBlocking(path, metadata)
        } catch {
            collection.store.unthrown.report("newAttachment", error)
            return nil
        }
    }

    /// Fetches an attachment by its token. Nil when that cannot begin; the log says why.
    @discardableResult
    public func fetchAttachment(
        token: DittoAttachmentToken, deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) -> DittoAttachmentFetcher? {
        do {
            return try collection.store.fetchAttachment(
                token: token, deliverOn: queue, onFetchEvent: onFetchEvent)
        } catch {
            collection.store.unthrown.report("fetchAttachment", error)
            return nil
        }
    }
}

/// The action of `upsert` on a document that is there.
@available(*, deprecated, message: "Use INSERT … ON ID CONFLICT DO UPDATE or another of DQL")
public enum DittoWriteStrategy: Sendable {
    /// The given fields are written, others stay. Objects are merged the same way.
    case merge
    /// Nothing is written.
    case insertIfAbsent
    /// Nothing is written. A new document is default data: every other write beats it, and devices that
    /// write the same default at the same time write one document.
    case insertDefaultIfAbsent
    /// The given fields that differ are written.
    case updateDifferentValues
    /// The document is removed, and written anew.
    case overwrite
}

/// The order of `sort`.
@available(*, deprecated, message: "Use ORDER BY … ASC or DESC")
public enum DittoSortDirection: Sendable {
    /// Least first.
    case ascending
    /// Greatest first.
    case descending
}

extension DittoStore {
    /// The collection of a name, which need not have documents yet.
    @available(*, deprecated, message: "Use DQL: execute(query:arguments:)")
    public subscript(collectionName: String) -> DittoCollection { collection(collectionName) }

    /// The collection of a name, which need not have documents yet.
    @available(*, deprecated, message: "Use DQL: execute(query:arguments:)")
    public func collection(_ name: String) -> DittoCollection {
        let collection = LegacyCollection(self, name)
        do {
            _ = try collection.quoted()
        } catch {
            unthrown.report("collection", error)
        }
        return DittoCollection(collection)
    }

    /// The names of all collections that were ever written.
    @available(*, deprecated, message: "Use execute(query: \"SELECT name FROM system:collections\")")
    public func collectionNames() -> [String] { collections().exec().map(\.name) }

    /// All collections.
    @available(*, deprecated, message: "Use registerObserver on SELECT name FROM system:collections")
    public func collections() -> DittoPendingCollectionsOperation { DittoPendingCollectionsOperation(self) }
}
