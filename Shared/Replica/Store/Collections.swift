import CRDT
import GRDB

/// A collection's documents table, `documents_N`, and what is written along with it; described by its number.
/// Belongs to one transaction.
final class DocumentTable: CustomStringConvertible {
    /// The number in the table's name.
    let number: Int64
    /// The collection.
    let name: String
    private let cache: IndexCache?
    private var known: (version: Int64, indexes: [StoredIndex])?

    // What is asked for once a document, put together once a transaction.
    let liveness: String
    let state: String
    let insertion: String
    let replacement: String
    /// Does nothing where the document is there.
    let addition: String

    init(_ number: Int64, _ name: String, _ cache: IndexCache?) {
        self.number = number
        self.name = name
        self.cache = cache
        liveness = "SELECT live FROM documents_\(number) WHERE id = ?"
        state = "SELECT state FROM documents_\(number) WHERE id = ?"
        insertion = "INSERT INTO documents_\(number) (id, live, position, state) VALUES (?1, ?2, ?3, ?4)"
        addition = insertion + " ON CONFLICT (id) DO NOTHING"
        replacement = insertion + " ON CONFLICT (id) DO UPDATE SET live = ?2, position = ?3, state = ?4"
    }

    var description: String { String(number) }

    /// The indexes of the collection, those being built included, in the order of their names' bytes. What
    /// they say of themselves is as of the first call: for keeping them up, which does not depend on it.
    func indexes(_ database: Database) throws -> [StoredIndex] {
        try known?.indexes ?? catalog(database).indexes
    }

    /// The indexes as they are now, and what changes whenever they do.
    func catalog(_ database: Database) throws -> (version: Int64, indexes: [StoredIndex]) {
        let version = try IndexRows.version(database)
        if let known, known.version == version { return known }
        let indexes =
            try cache?.indexes(of: number, version) { try IndexRows.load(self, database) }
            ?? IndexRows.load(self, database)
        known = (version, indexes)
        return (version, indexes)
    }
}

/// Finds a collection's table. One per transaction: names map to tables as that transaction sees them.
struct Collections {
    private var tables: [[UInt8]: DocumentTable] = [:]
    private let cache: IndexCache?

    /// `cache`: where the store keeps what it read of indexes.
    init(_ cache: IndexCache? = nil) { self.cache = cache }

    /// The table, nil when nothing was ever written to the collection.
    mutating func number(of name: String, _ database: Database) throws -> DocumentTable? {
        let key = Array(name.utf8)
        if let known = tables[key] { return known }
        let statement = try RawStatement(cached: "SELECT number FROM collection WHERE name = ?", database)
        statement.bind(1, name)
        guard try statement.step() else { return nil }
        let table = DocumentTable(statement.int(0), name, cache)
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
        let number = try Self.freeNumber(database)
        let statement = try RawStatement(
            cached: "INSERT INTO collection (number, name) VALUES (?, ?)", database)
        statement.bind(1, number)
        statement.bind(2, name)
        try statement.run()
        try Schema.createDocuments(number, database)
        let table = DocumentTable(number, name, cache)
        tables[Array(name.utf8)] = table
        return table
    }

    /// A number that no documents table has, of a collection or staged.
    static func freeNumber(_ database: Database) throws -> Int64 {
        let statement = try RawStatement(
            cached: """
                SELECT MAX(COALESCE((SELECT MAX(number) FROM collection), 0),
                    COALESCE((SELECT MAX(number) FROM staged_documents), 0)) + 1
                """, database)
        guard try statement.step() else { preconditionFailure("a maximum is a row") }
        return statement.int(0)
    }

    /// Forgets what is known of a collection: its documents are in another table now.
    mutating func forget(_ name: String) { tables[Array(name.utf8)] = nil }

    /// The names of all collections, by bytes.
    static func names(_ database: Database) throws -> [String] {
        let statement = try RawStatement(cached: "SELECT name FROM collection ORDER BY name", database)
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }
}
