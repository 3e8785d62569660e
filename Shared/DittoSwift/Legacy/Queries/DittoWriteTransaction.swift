import CRDT
import DQL
import Foundation

extension DittoStore {
    /// Calls a closure in a transaction, on this thread; it has run when this returns. Its operations reach
    /// the disk, and other devices, together.
    ///
    /// A `try` that fails inside of the closure undoes nothing: the operations before it stay. A write to the
    /// store itself, or another `write`, inside of the closure fails.
    /// - Returns: the operations in order; none, and an entry in the log, when the whole was not written.
    @available(*, deprecated, message: "Use transaction(hint:isReadOnly:with:)")
    @discardableResult
    public func write(_ block: @escaping (DittoWriteTransaction) -> Void) -> [DittoWriteTransactionResult] {
        do {
            return try writing("store.write") { transaction in
                block(DittoWriteTransaction(transaction))
                return transaction.operations
            }.map { DittoWriteTransactionResult($0) }
        } catch {
            unthrown.report("store.write", error)
            return []
        }
    }
}

/// An open transaction. It ends when its closure returns.
@available(*, deprecated, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoWriteTransaction: Sendable {
    private let transaction: LegacyTransaction

    init(_ transaction: LegacyTransaction) { self.transaction = transaction }

    /// The collection of a name, in the transaction.
    public func scoped(toCollectionNamed name: String) -> DittoScopedWriteTransaction {
        DittoScopedWriteTransaction(LegacyCollection(transaction.store, name, transaction))
    }

    /// The collection of a name, in the transaction.
    public subscript(collectionName: String) -> DittoScopedWriteTransaction {
        scoped(toCollectionNamed: collectionName)
    }
}

/// A collection in an open transaction: what was written so far is seen.
@available(*, deprecated, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoScopedWriteTransaction: Sendable {
    private let collection: LegacyCollection

    init(_ collection: LegacyCollection) { self.collection = collection }

    /// The collection's name.
    public var collectionName: String { collection.name.text }

    /// As `DittoCollection.upsert`.
    @discardableResult
    public func upsert(
        _ content: [String: Any?], writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { try collection.upsert(content, writeStrategy) }

    /// As `DittoCollection.upsert`.
    @discardableResult
    public func upsert<T: Encodable>(
        _ content: T, writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { try collection.upsert(encoding: content, writeStrategy) }

    /// As `DittoCollection.insert`.
    @discardableResult
    public func insert(
        _ content: [String: Any?], id: Any? = nil, isDefault: Bool = false
    ) throws -> DittoDocumentID { try collection.insert(content, id, isDefault: isDefault) }

    /// The document of an id.
    public func findByID(_ id: DittoDocumentID) -> DittoWriteTransactionPendingIDSpecificOperation {
        DittoWriteTransactionPendingIDSpecificOperation(LegacyPoint(collection, id))
    }

    /// The document of an id.
    public func findByID(_ id: Any?) -> DittoWriteTransactionPendingIDSpecificOperation {
        findByID(DittoDocumentID(value: id))
    }

    /// The documents that fulfil a query.
    public func find(_ query: String) -> DittoWriteTransactionPendingCursorOperation {
        find(query, args: [:])
    }

    /// The documents that fulfil a query with arguments.
    public func find(
        _ query: String, args: [String: Any?]
    ) -> DittoWriteTransactionPendingCursorOperation {
        DittoWriteTransactionPendingCursorOperation(LegacyCursor(collection, query, args))
    }

    /// All documents.
    public func findAll() -> DittoWriteTransactionPendingCursorOperation {
        DittoWriteTransactionPendingCursorOperation(LegacyCursor(collection, nil, [:]))
    }
}

/// A query in an open transaction.
@available(*, deprecated, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoWriteTransactionPendingCursorOperation: Sendable {
    private let cursor: LegacyCursor

    init(_ cursor: LegacyCursor) { self.cursor = cursor }

    /// As in `DittoPendingCursorOperation`.
    @discardableResult
    public func limit(_ limit: Int32) -> Self {
        cursor.limit(limit)
        return self
    }

    /// As in `DittoPendingCursorOperation`.
    @discardableResult
    public func offset(_ offset: UInt32) -> Self {
        cursor.offset(offset)
        return self
    }

    /// As in `DittoPendingCursorOperation`.
    @discardableResult
    public func sort(_ query: String, direction: DittoSortDirection = .ascending) -> Self {
        cursor.sort(query, isDescending: direction == .descending)
        return self
    }

    /// The documents now, with what the transaction wrote.
    public func exec() -> [DittoDocument] { cursor.exec().map { DittoDocument($0) } }

    /// Calls the closure once, with all documents.
    @discardableResult
    public func update(
        _ updater: @escaping ([DittoMutableDocument]) -> Void
    ) -> [DittoDocumentID: [DittoUpdateResult]] { cursor.updateDocuments(updater) }

    /// Removes the documents everywhere. Returns their ids.
    @discardableResult
    public func remove() -> [DittoDocumentID] { cursor.remove() }

    /// Removes the documents from this device only. Returns their ids.
    @discardableResult
    public func evict() -> [DittoDocumentID] { cursor.evict() }
}

/// One document in an open transaction.
@available(*, deprecated, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoWriteTransactionPendingIDSpecificOperation: Sendable {
    private let point: LegacyPoint

    init(_ point: LegacyPoint) { self.point = point }

    /// The document now, with what the transaction wrote; nil when there is none.
    public func exec() -> DittoDocument? { point.exec().map { DittoDocument($0) } }

    /// Calls the closure once, with the document or with nil when there is none.
    @discardableResult
    public func update(_ updater: @escaping (DittoMutableDocument?) -> Void) -> [DittoUpdateResult] {
        point.updateDocument(updater)
    }

    /// Removes the document everywhere. Returns false when there is none.
    @discardableResult
    public func remove() -> Bool { point.remove() }

    /// Removes the document from this device only. Returns false when there is none.
    @discardableResult
    public func evict() -> Bool { point.evict() }
}

/// One operation of a transaction.
@available(*, deprecated, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoWriteTransactionResult: Equatable, Sendable {
    /// A document was written by `upsert` or `insert`.
    case inserted(docID: DittoDocumentID, collection: String)
    /// A document was changed by `update`.
    case updated(docID: DittoDocumentID, collection: String)
    /// A document was removed from this device.
    case evicted(docID: DittoDocumentID, collection: String)
    /// A document was removed everywhere.
    case removed(docID: DittoDocumentID, collection: String)

    init(_ operation: LegacyTransaction.Operation) {
        let (id, collection) = (operation.id, operation.collection)
        self =
            switch operation.action {
            case .inserted: .inserted(docID: id, collection: collection)
            case .updated: .updated(docID: id, collection: collection)
            case .evicted: .evicted(docID: id, collection: collection)
            case .removed: .removed(docID: id, collection: collection)
            }
    }
}
