import CRDT
import GRDB

/// A collection's documents table, `documents_N`, and what is written along with it; described by its number.
/// Belongs to one transaction.
final class DocumentTable: CustomStringConvertible {
    /// The number in the table's name.
    let number: Int64
    /// The collection.
    let name: String
    private var known: [StoredIndex]?

    // What is asked for once a document, put together once a transaction.
    let liveness: String
    let state: String
    let insertion: String
    let replacement: String

    init(_ number: Int64, _ name: String) {
        self.number = number
        self.name = name
        liveness = "SELECT live FROM documents_\(number) WHERE id = ?"
        state = "SELECT state FROM documents_\(number) WHERE id = ?"
        insertion = "INSERT INTO documents_\(number) (id, live, position, state) VALUES (?1, ?2, ?3, ?4)"
        replacement = insertion + " ON CONFLICT (id) DO UPDATE SET live = ?2, position = ?3, state = ?4"
    }

    var description: String { String(number) }

    /// The indexes of the collection, those being built included.
    func indexes(_ database: Database) throws -> [StoredIndex] {
        if let known { return known }
        let loaded = try IndexRows.load(self, database)
        known = loaded
        return loaded
    }
}

/// Finds a collection's table. One per transaction: names map to tables as that transaction sees them.
struct Collections {
    private var tables: [[UInt8]: DocumentTable] = [:]

    /// The table, nil when nothing was ever written to the collection.
    mutating func number(of name: String, _ database: Database) throws -> DocumentTable? {
        let key = Array(name.utf8)
        if let known = tables[key] { return known }
        let statement = try RawStatement(cached: "SELECT number FROM collection WHERE name = ?", database)
        statement.bind(1, name)
        guard try statement.step() else { return nil }
        let table = DocumentTable(statement.int(0), name)
        tables[key] = table
        return table
    }

    /// The table, created when it is the collection's first document.
    mutating func requireNumber(of name: String, _ database: Database) throws -> DocumentTable {
        if let known = try number(of: name, database) { return known }
        let length = name.utf8.count
        guard length > 0, length <= CRDT.Limits.collectionNameBytes else {
            throw ReplicaError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, this one \(length)")
        }
        let statement = try RawStatement(cached: "INSERT INTO collection (name) VALUES (?)", database)
        statement.bind(1, name)
        try statement.run()
        let number = database.lastInsertedRowID
        try Schema.createDocuments(number, database)
        let table = DocumentTable(number, name)
        tables[Array(name.utf8)] = table
        return table
    }

    /// The names of all collections, by bytes.
    static func names(_ database: Database) throws -> [String] {
        let statement = try RawStatement(cached: "SELECT name FROM collection ORDER BY name", database)
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }
}
