import CRDT
import GRDB

/// Finds a collection's table. One per transaction: names map to numbers as that transaction sees them.
struct Collections {
    private var numbers: [[UInt8]: Int64] = [:]

    /// The table's number, nil when nothing was ever written to the collection.
    mutating func number(of name: String, _ database: Database) throws -> Int64? {
        let key = Array(name.utf8)
        if let known = numbers[key] { return known }
        let statement = try RawStatement(cached: "SELECT number FROM collection WHERE name = ?", database)
        statement.bind(1, name)
        guard try statement.step() else { return nil }
        numbers[key] = statement.int(0)
        return statement.int(0)
    }

    /// The table's number, the table created when it is the collection's first document.
    mutating func requireNumber(of name: String, _ database: Database) throws -> Int64 {
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
        numbers[Array(name.utf8)] = number
        return number
    }

    /// The names of all collections, by bytes.
    static func names(_ database: Database) throws -> [String] {
        let statement = try RawStatement(cached: "SELECT name FROM collection ORDER BY name", database)
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }
}

/// Reads and writes rows of the documents tables.
enum DocumentRows {
    /// The encoded state of a document, tombstones included.
    static func state(_ table: Int64, _ id: DocumentID, _ database: Database) throws -> [UInt8]? {
        let statement = try RawStatement(
            cached: "SELECT state FROM documents_\(table) WHERE id = ?", database)
        statement.bind(1, id.bytes)
        return try statement.step() ? statement.bytes(0) : nil
    }

    static func put(
        _ table: Int64, _ id: DocumentID, live: Bool, position: UInt64, state: [UInt8], _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: """
                INSERT INTO documents_\(table) (id, live, position, state) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (id) DO UPDATE SET live = ?2, position = ?3, state = ?4
                """, database)
        statement.bind(1, id.bytes)
        statement.bind(2, live ? 1 : 0)
        statement.bind(3, bits: position)
        statement.bind(4, state)
        try statement.run()
    }

    /// Lets a document count as changed at a position, its state untouched.
    static func move(_ table: Int64, _ id: DocumentID, position: UInt64, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "UPDATE documents_\(table) SET position = ? WHERE id = ?", database)
        statement.bind(1, bits: position)
        statement.bind(2, id.bytes)
        try statement.run()
    }

    static func remove(_ table: Int64, _ id: DocumentID, _ database: Database) throws {
        let statement = try RawStatement(cached: "DELETE FROM documents_\(table) WHERE id = ?", database)
        statement.bind(1, id.bytes)
        try statement.run()
    }
}
