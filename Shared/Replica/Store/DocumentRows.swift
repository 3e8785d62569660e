import CRDT
import DQL
import GRDB

/// Reads and writes rows of the documents tables. All changes of documents go through here, so that their
/// indexes change with them, in the same transaction.
enum DocumentRows {
    /// The encoded state of a document, tombstones included.
    static func state(_ table: DocumentTable, _ id: DocumentID, _ database: Database) throws -> EncodedState?
    {
        let statement = try table.statement(.state, database)
        statement.bind(1, id.bytes)
        return try statement.step() ? EncodedState(statement.bytes(0)) : nil
    }

    /// Returns whether a document is live; nil if the table does not have it.
    static func isLive(_ table: DocumentTable, _ id: DocumentID, _ database: Database) throws -> Bool? {
        let statement = try table.statement(.liveness, database)
        statement.bind(1, id.bytes)
        return try statement.step() ? statement.int(0) != 0 : nil
    }

    /// The commit or offset that last changed a document.
    static func position(_ table: DocumentTable, _ id: DocumentID, _ database: Database) throws -> UInt64? {
        let statement = try RawStatement(
            cached: "SELECT position FROM documents_\(table) WHERE id = ?", database)
        statement.bind(1, id.bytes)
        return try statement.step() ? statement.bits(0) : nil
    }

    /// Writes the state of a live document unless the table has the document, even as a tombstone.
    /// - Returns: the document's number; nil when nothing was written.
    static func add(
        _ table: DocumentTable, _ id: DocumentID, position: UInt64, state: EncodedState, _ database: Database
    ) throws -> Int64? {
        let statement = try table.statement(.addition, database)
        statement.bind(2, 1)
        statement.bind(3, bits: position)
        try statement.run(1, id.bytes, 4, state.bytes)
        guard statement.changes > 0 else { return nil }
        let number = statement.insertedNumber
        let indexes = try table.indexes(database)
        guard !indexes.isEmpty else { return number }
        try state.withUnsafeBytes { bytes in
            let document = try DocumentReader(bytes)
            for (place, index) in indexes.enumerated() {
                guard let entry = try index.entry(of: document) else { continue }
                try index.add(entry, of: number, table.entryInsertion(place, database), database)
            }
        }
        return number
    }

    /// Writes a document's state. `isNew`: the table is known not to have the document.
    static func put(
        _ table: DocumentTable, _ id: DocumentID, live: Bool, position: UInt64, state: EncodedState,
        isNew: Bool = false, _ database: Database
    ) throws {
        if !isNew { try keepOperation(table, id, database) }
        let indexes = try table.indexes(database)
        let before = indexes.isEmpty || isNew ? nil : try entries(table, id, indexes, database)
        let statement = try table.statement(isNew ? .insertion : .replacement, database)
        statement.bind(2, live ? 1 : 0)
        statement.bind(3, bits: position)
        try statement.run(1, id.bytes, 4, state.bytes)
        guard !indexes.isEmpty else { return }
        let number = before?.number ?? database.lastInsertedRowID
        try state.withUnsafeBytes { bytes in
            let document = live ? try DocumentReader(bytes) : nil
            for (place, index) in indexes.enumerated() {
                let old = before?.entries[place]
                let new = try document.flatMap { try index.entry(of: $0) }
                guard old != new else { continue }
                if let old { try index.remove(old, of: number, database) }
                if let new { try index.insert(new, of: number, database) }
            }
        }
    }

    /// Marks a document as changed at a position, without changing its state.
    static func move(
        _ table: DocumentTable, _ id: DocumentID, position: UInt64, _ database: Database
    ) throws {
        try keepOperation(table, id, database)
        let statement = try RawStatement(
            cached: "UPDATE documents_\(table) SET position = ? WHERE id = ?", database)
        statement.bind(1, bits: position)
        statement.bind(2, id.bytes)
        try statement.run()
    }

    static func remove(_ table: DocumentTable, _ id: DocumentID, _ database: Database) throws {
        try keepOperation(table, id, database)
        let indexes = try table.indexes(database)
        if !indexes.isEmpty, let before = try entries(table, id, indexes, database) {
            for (index, entry) in zip(indexes, before.entries) {
                if let entry { try index.remove(entry, of: before.number, database) }
            }
        }
        let statement = try RawStatement(cached: "DELETE FROM documents_\(table) WHERE id = ?", database)
        statement.bind(1, id.bytes)
        try statement.run()
    }

    /// Copies the document into an own operation that still refers to it.
    private static func keepOperation(
        _ table: DocumentTable, _ id: DocumentID, _ database: Database
    ) throws {
        guard try table.mayBeReferredTo(database) else { return }
        try OwnOperations.makeWhole(referringTo: id, in: table, database)
    }

    /// A document's number and its entries in the indexes, nil for an index without one.
    private static func entries(
        _ table: DocumentTable, _ id: DocumentID, _ indexes: [StoredIndex], _ database: Database
    ) throws -> (number: Int64, entries: [StoredIndex.Entry?])? {
        let statement = try RawStatement(
            cached: "SELECT number, live, state FROM documents_\(table) WHERE id = ?", database)
        statement.bind(1, id.bytes)
        guard try statement.step() else { return nil }
        let document = statement.int(1) != 0 ? try DocumentReader(statement.blob(2)) : nil
        return (
            statement.int(0), try indexes.map { index in try document.flatMap { try index.entry(of: $0) } }
        )
    }
}
