import CRDT

/// The collections that are computed, not stored (spec 1.12).
public enum SystemCollection: String, Sendable, CaseIterable {
    /// One document without fields, for expressions.
    case dual
    /// One document per collection: `_id` and `name`.
    case collections
    /// One document per index.
    case indexes
    /// One document per remote peer: `is_ditto_server`, `documents`.
    case dataSyncInfo = "data_sync_info"
    /// `namespace`, `key`, `value`, `timestamp`.
    case systemInfo = "system_info"
    /// Statements that are running.
    case activeRequests = "active_requests"
    /// Statements that have finished.
    case requestHistory = "request_history"
    /// The cached prepared statements.
    case sharedStatements = "shared_statements"
    /// Figures about the process.
    case vitals
    /// Figures for monitoring.
    case metrics
    /// The state of the transports.
    case transportsInfo = "transports_info"
}

/// The rows of `system:` collections, supplied by an owner of documents.
public protocol SystemCollections: Sendable {
    /// The rows of a collection; nil if this owner does not offer it. Each row becomes a document: `_id` is
    /// its id (its position if there is none), objects are MAPs.
    func rows(of collection: SystemCollection) throws -> [ObjectValue]?

    /// Carries out a DELETE: cancels running requests, or removes finished ones. Called for no other
    /// collection.
    func remove(_ ids: [DocumentID], from collection: SystemCollection) throws
}

extension SystemCollections {
    /// The default: nothing can be deleted.
    public func remove(_ ids: [DocumentID], from collection: SystemCollection) throws {
        throw DQLError(
            .readOnlyCollection, "system:\(collection.rawValue) cannot be written here",
            position: SourcePosition(line: 1, column: 1))
    }
}

extension SystemCollection {
    /// True if the collection supports DELETE: a running request is cancelled, a finished one is removed.
    var takesDelete: Bool { self == .activeRequests || self == .requestHistory }
}

/// Rows presented as documents in place, so that statements read them like any other.
struct SystemRows {
    let collection: NameSyntax
    let source: SourceText
    let options: ExecutionOptions

    /// Visits the rows in the order they were given until a visit returns false.
    func forEach(_ visit: (DocumentRecord) throws -> Bool) throws {
        let name = collection.text.lowercased()
        guard let known = SystemCollection(rawValue: name) else {
            preconditionFailure("the analyzer lets only known collections through")
        }
        guard let rows = try options.system?.rows(of: known) ?? (known == .indexes ? [] : nil) else {
            throw source.error(
                .collectionNotOffered, "system:\(name) is not offered here", at: collection.span)
        }
        for (place, row) in rows.enumerated() {
            let id = try (row[documentIDField]).map { try DocumentID($0) } ?? DocumentID(.int(Int64(place)))
            var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(0)))
            editor.create()
            for field in row.entries where !utf8Equal(field.key, documentIDField) {
                try editor.set([field.key], field.value)
            }
            let goesOn = try editor.document.encoded().withUnsafeBytes { bytes in
                try visit(DocumentRecord(id: id, document: try DocumentReader(bytes)))
            }
            if !goesOn { return }
        }
    }
}

extension PreparedStatement {
    /// Returns whether it reads a system collection.
    public func reads(_ collection: SystemCollection) -> Bool {
        collectionsRead.contains(CollectionName("system:\(collection.rawValue)"))
    }
}
