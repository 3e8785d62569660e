import CRDT

/// One live document, valid only during the visit that hands it out.
public struct DocumentRecord {
    /// The id's bytes, until a caller asks for the id: scans that only count create none.
    let place: UnsafeRawBufferPointer
    /// The id, if it was created already.
    let known: DocumentID?
    /// The document, read in place.
    public let document: DocumentReader

    /// The document's id.
    public var id: DocumentID { known ?? DocumentID(trusted: [UInt8](place)) }

    /// A document as a store presents it.
    public init(id: DocumentID, document: DocumentReader) {
        known = id
        place = UnsafeRawBufferPointer(start: nil, count: 0)
        self.document = document
    }

    /// A document as a store presents it; the bytes of its id are in place too, as this process stored them.
    public init(idInPlace bytes: UnsafeRawBufferPointer, document: DocumentReader) {
        known = nil
        place = bytes
        self.document = document
    }

    /// The bytes of the id and of the document.
    func withBytes<Result>(
        _ body: (_ id: UnsafeRawBufferPointer, _ document: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        guard let known else { return body(place, document.bytes) }
        return known.bytes.withUnsafeBytes { body($0, document.bytes) }
    }
}

/// A consistent snapshot of a store's documents. The border between the language and stores: the evaluator
/// asks for nothing else.
public protocol DocumentSource {
    /// Visits the live documents of a collection, each once, in any order. A visit that returns false ends
    /// the scan; one that throws ends it with its error. A collection that does not exist has no documents.
    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws

    /// The same as `scan`, for a visit that never asks for an id: the ids of these records are meaningless.
    func scanFields(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws

    /// Visits the document of this id if it is live.
    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws

    /// The same snapshot with its indexes; nil for a store that has none.
    var indexed: (any IndexedSource)? { get }

    /// The same snapshot with its SQL; nil for a store that has none.
    var pushing: (any PushingSource)? { get }
}

extension DocumentSource {
    /// Implemented by `scan`.
    public func scanFields(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        try scan(collection, visit)
    }

    /// None.
    public var indexed: (any IndexedSource)? { nil }

    /// None.
    public var pushing: (any PushingSource)? { nil }
}

/// A write transaction: it sees its own writes.
///
/// A statement that fails may have written before it failed. Statements are atomic, so the owner of the
/// transaction undoes a throwing statement's writes (a savepoint).
public protocol DocumentWriter: DocumentSource {
    /// Returns whether the document is live.
    func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool

    /// Hands out an editor on the document, which need not exist, and stores its edits. Not called during a
    /// scan.
    func edit(_ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void)
        throws

    /// Inserts a document unless it is live: `edit` with `DocumentEditor.create`. `_id` among the fields is
    /// left out. `declared` holds the document's declared types. Not called during a scan.
    /// - Returns: whether it was inserted.
    func insert(
        _ collection: CollectionName, _ id: DocumentID, _ fields: ObjectValue, declared: TypeDeclaration,
        objectsAreRegisters: Bool
    ) throws -> Bool

    /// Removes the documents from this store only. Not called during a scan.
    func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws

    /// Says which documents will be looked up and edited next, so that a store far away reads them at once.
    /// Replaces what was said before.
    func expect(_ collection: CollectionName, _ ids: ArraySlice<DocumentID>) throws
}

extension DocumentWriter {
    /// Nothing: the documents are near.
    public func expect(_ collection: CollectionName, _ ids: ArraySlice<DocumentID>) throws {}

    /// Calls `body` for each document that a statement writes, which it says to `expect` some at a time.
    func forEachExpected<Element>(
        _ elements: [Element], of collection: CollectionName, id: (Element) -> DocumentID,
        _ body: (Element) throws -> Void
    ) throws {
        for (place, element) in elements.enumerated() {
            if elements.count > 1, place.isMultiple(of: DQLLimits.pushedLookups) {
                try expect(collection, elements[place...].prefix(DQLLimits.pushedLookups).map(id)[...])
            }
            try body(element)
        }
    }

    /// Implemented by `exists` and `edit`.
    public func insert(
        _ collection: CollectionName, _ id: DocumentID, _ fields: ObjectValue, declared: TypeDeclaration,
        objectsAreRegisters: Bool
    ) throws -> Bool {
        guard try !exists(collection, id) else { return false }
        try edit(collection, id) { editor in
            try editor.create(
                fields.without(documentIDField), declared: declared, objectsAreRegisters: objectsAreRegisters)
        }
        return true
    }
}
