import CRDT
import DQL
import GRDB

/// The catalog of indexes: one row an index, written and read within transactions.
enum IndexRows {
    /// The indexes of a collection, in the order of their names' bytes, those being built included.
    static func load(_ table: DocumentTable, _ database: Database) throws -> [StoredIndex] {
        let statement = try RawStatement(
            reused: """
                SELECT number, name, keys, built, exact FROM document_index WHERE collection = ? ORDER BY name
                """, database)
        statement.bind(1, table.number)
        var indexes: [StoredIndex] = []
        while try statement.step() {
            indexes.append(
                StoredIndex(
                    statement.int(0),
                    IndexDescription(
                        name: statement.text(1), collection: table.name, keys: try keys(statement.bytes(2)),
                        isReady: statement.isNull(3), isExact: statement.int(4) != 0)))
        }
        return indexes
    }

    /// A number that changes whenever an index appears, becomes complete or inexact, or vanishes. Drawn by
    /// SQLite, so that a rolled-back transaction and the next one never give one number to different
    /// catalogs.
    static func version(_ database: Database) throws -> Int64 {
        let statement = try RawStatement(reused: "SELECT version FROM index_version", database)
        return try statement.step() ? statement.int(0) : 0
    }

    /// Gives the catalog another version.
    static func noteChange(_ database: Database) throws {
        try RawStatement(cached: "UPDATE index_version SET version = random()", database).run()
    }

    /// Adds an index whose table is still empty, complete when its collection is.
    static func insert(
        _ index: IndexDescription, _ table: DocumentTable, _ database: Database
    ) throws -> Int64 {
        let hasDocuments = try RawStatement(
            cached: "SELECT 1 FROM documents_\(table) WHERE live LIMIT 1", database
        ).hasRow()
        let statement = try RawStatement(
            cached: """
                INSERT INTO document_index (collection, name, keys, built, exact) VALUES (?, ?, ?, ?, 1)
                """, database)
        statement.bind(1, table.number)
        statement.bind(2, index.name)
        statement.bind(3, KeyForm.encode(index.keys))
        if hasDocuments { statement.bind(4, 0) }
        try statement.run()
        let number = database.lastInsertedRowID
        try noteChange(database)
        try database.execute(
            sql: """
                CREATE TABLE index_\(number) (
                    key BLOB NOT NULL, document INTEGER NOT NULL, held BLOB,
                    PRIMARY KEY (key, document)) WITHOUT ROWID
                """)
        return number
    }

    static func delete(_ number: Int64, _ database: Database) throws {
        let statement = try RawStatement(cached: "DELETE FROM document_index WHERE number = ?", database)
        statement.bind(1, number)
        try statement.run()
        try database.execute(sql: "DROP TABLE index_\(number)")
        try noteChange(database)
    }

    /// The progress of an index that is being built: the number of the last document in it. nil if it is
    /// complete or dropped.
    static func built(_ number: Int64, _ database: Database) throws -> Int64? {
        let statement = try RawStatement(
            cached: "SELECT built FROM document_index WHERE number = ? AND built IS NOT NULL", database)
        statement.bind(1, number)
        return try statement.step() ? statement.int(0) : nil
    }

    /// Records the progress of an index; nil means complete.
    static func setBuilt(_ number: Int64, _ built: Int64?, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "UPDATE document_index SET built = ?2 WHERE number = ?1", database)
        statement.bind(1, number)
        if let built { statement.bind(2, built) }
        try statement.run()
        if built == nil { try noteChange(database) }
    }

    /// The indexes that were begun and not completed, the oldest first, each with its collection.
    static func unfinished(_ database: Database) throws -> [(collection: CollectionName, name: String)] {
        let statement = try RawStatement(
            cached: """
                SELECT collection.name, document_index.name FROM document_index
                JOIN collection ON collection.number = document_index.collection
                WHERE built IS NOT NULL ORDER BY document_index.number
                """, database)
        var found: [(collection: CollectionName, name: String)] = []
        while try statement.step() { found.append((CollectionName(statement.text(0)), statement.text(1))) }
        return found
    }

    private static func keys(_ bytes: [UInt8]) throws -> [IndexDescription.Key] {
        guard let keys = KeyForm.decode(bytes) else {
            throw ReplicaError(.damaged, "the definition of an index is damaged")
        }
        return keys
    }
}
