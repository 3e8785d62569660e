import CRDT
import DQL
import GRDB

/// A collection's documents table, `documents_N`, and its indexes; described by its number. Belongs to one
/// transaction.
final class DocumentTable: CustomStringConvertible {
    /// The number in the table's name.
    let number: Int64
    /// The collection.
    let name: CollectionName
    private let cache: IndexCache?
    /// True if the transaction shows one moment, so that indexes once read stay valid.
    private let isSnapshot: Bool
    private var known: KnownIndexes?
    /// The index requested last.
    private var lastIndex: StoredIndex?
    /// Statements of the transaction's connection by kind, so that those needed once per document are not
    /// looked up by their text each time.
    private var statements: [GRDB.Statement?] = Array(repeating: nil, count: TableStatement.allCases.count)
    private var scans: [IndexStatement: GRDB.Statement] = [:]
    /// The scan requested last.
    private var lastScan: (kind: IndexStatement, statement: GRDB.Statement)?
    private var isReferredTo: Bool?
    /// Statements that add entries to the indexes, in their order.
    private var entryInsertions: [GRDB.Statement] = []

    init(_ number: Int64, _ name: CollectionName, _ cache: IndexCache?, isSnapshot: Bool) {
        self.number = number
        self.name = name
        self.cache = cache
        self.isSnapshot = isSnapshot
    }

    var description: String { String(number) }

    /// A statement on the table.
    func statement(_ kind: TableStatement, _ database: Database) throws -> RawStatement {
        if let known = statements[kind.rawValue] { return try RawStatement(reusing: known, database) }
        let made = try database.cachedStatement(sql: kind.text(of: self))
        statements[kind.rawValue] = made
        return try RawStatement(reusing: made, database)
    }

    /// A statement on one of its indexes.
    func statement(_ kind: IndexStatement, _ database: Database) throws -> RawStatement {
        if let lastScan, lastScan.kind == kind {
            return try RawStatement(reusing: lastScan.statement, database)
        }
        let made = try scans[kind] ?? database.cachedStatement(sql: kind.text(of: self))
        scans[kind] = made
        lastScan = (kind, made)
        return try RawStatement(reusing: made, database)
    }

    /// Forgets a cached answer after a part of the transaction was undone.
    func forgetReferences() { isReferredTo = nil }

    /// A statement that adds an entry of a new document to the index at a place of `indexes`.
    func entryInsertion(_ place: Int, _ database: Database) throws -> RawStatement {
        let indexes = try indexes(database)
        while entryInsertions.count < indexes.count {
            entryInsertions.append(
                try database.cachedStatement(sql: indexes[entryInsertions.count].addition))
        }
        return try RawStatement(reusing: entryInsertions[place], database)
    }

    /// Returns whether an own operation may refer to documents. The transaction's own one does not before
    /// its end.
    func mayBeReferredTo(_ database: Database) throws -> Bool {
        if let isReferredTo { return isReferredTo }
        let known = try OwnOperations.anyRefers(database)
        isReferredTo = known
        return known
    }

    /// The indexes of the collection, those being built included, in the order of their names' bytes. Their
    /// properties are as of the first call; maintaining them does not depend on these.
    func indexes(_ database: Database) throws -> [StoredIndex] {
        try known?.indexes ?? catalog(database).indexes
    }

    /// The present indexes as statements see them.
    func catalog(_ database: Database) throws -> KnownIndexes {
        if isSnapshot, let known { return known }
        let version = try IndexRows.version(database)
        if let known, known.catalog.version == UInt64(bitPattern: version) { return known }
        lastIndex = nil
        let indexes =
            try cache?.indexes(of: number, version) { try IndexRows.load(self, database) }
            ?? IndexRows.load(self, database)
        let found = KnownIndexes(
            catalog: IndexCatalog(
                version: UInt64(bitPattern: version), indexes: indexes.map(\.description)),
            indexes: indexes)
        known = found
        return found
    }

    /// The present version of the catalog.
    func catalogVersion(_ database: Database) throws -> UInt64 { try catalog(database).catalog.version }

    /// The index with this name; nil if there is none.
    func index(named name: String, _ database: Database) throws -> StoredIndex? {
        let indexes = try catalog(database).indexes
        if let lastIndex, utf8Equal(lastIndex.description.name, name) { return lastIndex }
        lastIndex = indexes.first { utf8Equal($0.description.name, name) }
        return lastIndex
    }
}

/// The indexes of a collection at one moment as statements see them.
final class KnownIndexes {
    let catalog: IndexCatalog
    let indexes: [StoredIndex]

    init(catalog: IndexCatalog, indexes: [StoredIndex]) {
        self.catalog = catalog
        self.indexes = indexes
    }
}

/// The statements needed once per document.
enum TableStatement: Int, CaseIterable {
    /// Every document, if all are live: id, state. Checking each would take longer than knowing.
    case scan
    /// The same: state.
    case states
    /// Every live document: id, state.
    case liveScan
    /// One document that is not live, if any; reads no state.
    case dead
    /// A live document by its id: state.
    case lookup
    /// A live document by its number: id, state.
    case numbered
    /// The liveness of a document by its id.
    case liveness
    /// The state by an id, of a tombstone too.
    case state
    case insertion
    /// An insertion that does nothing if the document exists.
    case addition
    case replacement

    func text(of table: DocumentTable) -> String {
        let name = "documents_\(table)"
        let insertion = "INSERT INTO \(name) (id, live, position, state) VALUES (?1, ?2, ?3, ?4)"
        return switch self {
        case .scan: "SELECT id, state FROM \(name)"
        case .states: "SELECT state FROM \(name)"
        case .liveScan: "SELECT id, state FROM \(name) WHERE live"
        case .dead: "SELECT 1 FROM \(name) INDEXED BY \(name)_dead WHERE live = 0 LIMIT 1"
        case .lookup: "SELECT state FROM \(name) WHERE id = ? AND live"
        case .numbered: "SELECT id, state FROM \(name) WHERE number = ? AND live"
        case .liveness: "SELECT live FROM \(name) WHERE id = ?"
        case .state: "SELECT state FROM \(name) WHERE id = ?"
        case .insertion: insertion
        case .addition: insertion + " ON CONFLICT (id) DO NOTHING"
        case .replacement:
            insertion + " ON CONFLICT (id) DO UPDATE SET live = ?2, position = ?3, state = ?4"
        }
    }
}

/// Finds a collection's table. One per transaction: names map to tables as that transaction sees them.
struct Collections {
    private var tables: [CollectionName: DocumentTable] = [:]
    /// The table requested last: mostly it is the next one, too.
    private var last: DocumentTable?
    private let cache: IndexCache?
    private let isSnapshot: Bool

    /// Uses the store's `cache` of indexes. `isSnapshot`: the transaction shows one moment.
    init(_ cache: IndexCache? = nil, isSnapshot: Bool = false) {
        self.cache = cache
        self.isSnapshot = isSnapshot
    }

    /// The table, nil when nothing was ever written to the collection.
    mutating func number(of name: CollectionName, _ database: Database) throws -> DocumentTable? {
        if let last, last.name == name { return last }
        if let known = tables[name] {
            last = known
            return known
        }
        let statement = try RawStatement(cached: "SELECT number FROM collection WHERE name = ?", database)
        statement.bind(1, name.text)
        guard try statement.step() else { return nil }
        let table = DocumentTable(statement.int(0), name, cache, isSnapshot: isSnapshot)
        tables[name] = table
        last = table
        return table
    }

    /// The table, created for the collection's first document.
    mutating func requireNumber(of name: CollectionName, _ database: Database) throws -> DocumentTable {
        if let known = try number(of: name, database) { return known }
        let length = name.text.utf8.count
        guard length > 0, length <= CRDT.Limits.collectionNameBytes else {
            throw ReplicaError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, not \(length)")
        }
        let number = try Self.freeNumber(database)
        let statement = try RawStatement(
            cached: "INSERT INTO collection (number, name) VALUES (?, ?)", database)
        statement.bind(1, number)
        statement.bind(2, name.text)
        try statement.run()
        try Schema.createDocuments(number, database)
        let table = DocumentTable(number, name, cache, isSnapshot: isSnapshot)
        tables[name] = table
        return table
    }

    /// A number that no documents table uses, neither a collection's nor a staged one.
    static func freeNumber(_ database: Database) throws -> Int64 {
        let statement = try RawStatement(
            cached: """
                SELECT MAX(COALESCE((SELECT MAX(number) FROM collection), 0),
                    COALESCE((SELECT MAX(number) FROM staged_documents), 0)) + 1
                """, database)
        guard try statement.step() else { preconditionFailure("a maximum is a row") }
        return statement.int(0)
    }

    /// Forgets a collection's table: its documents have moved to another one.
    mutating func forget(_ name: CollectionName) {
        tables[name] = nil
        last = nil
    }

    /// Forgets cached answers about own operations after a part was undone.
    func forgetReferences() { for table in tables.values { table.forgetReferences() } }

    /// The names of all collections, by bytes.
    static func names(_ database: Database) throws -> [CollectionName] {
        let statement = try RawStatement(cached: "SELECT name FROM collection ORDER BY name", database)
        var names: [CollectionName] = []
        while try statement.step() { names.append(CollectionName(statement.text(0))) }
        return names
    }
}
