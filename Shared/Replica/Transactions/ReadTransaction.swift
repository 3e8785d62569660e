import CRDT
import DQL
import GRDB

/// A consistent snapshot of the store. Used only inside the closure that receives it. Without writes in
/// between, the next read gets the same one, with its cached collections and indexes.
public final class ReadTransaction: DocumentSource, IndexedSource {
    let database: Database
    var collections: Collections

    init(_ database: Database, _ cache: IndexCache? = nil) {
        self.database = database
        collections = Collections(cache, isSnapshot: true)
    }

    /// Visits the live documents of a collection in place, in no promised order; the visit returns false to
    /// stop.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.scan(table, database, visit)
    }

    /// Like `scan`, without ids.
    public func scanFields(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.scanFields(table, database, visit)
    }

    /// Visits one live document in place; does nothing when there is none.
    public func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    )
        throws
    {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.lookup(table, id, database, visit)
    }

    /// The names of all collections that were ever written.
    public func collectionNames() throws -> [CollectionName] { try Collections.names(database) }

    /// The encoded state of a document, tombstones included; nil when the store never had it or evicted it.
    public func state(of key: DocumentKey) throws -> EncodedState? {
        guard let table = try collections.number(of: key.collection, database) else { return nil }
        return try DocumentRows.state(table, key.id, database)
    }

    /// Hands out a document's state in place, without a copy; nil like `state`.
    public func withState<Result>(
        of key: DocumentKey, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result? {
        guard let table = try collections.number(of: key.collection, database) else { return nil }
        let statement = try table.statement(.state, database)
        statement.bind(1, key.id.bytes)
        return try statement.step() ? body(statement.blob(0)) : nil
    }

    /// The store's head: the number of the last commit, or a materialization's offset.
    public func head() throws -> UInt64 { try StoreState.load(database)?.head ?? 0 }

    /// The offset up to which a materialization has folded its log; 0 before the first fold.
    public func foldedThrough() throws -> Offset { try StoreState.load(database)?.foldedThrough ?? 0 }

    /// The position up to which a materialization has folded its log; nil before the first operation or on
    /// a peer.
    public func logPosition() throws -> LogPosition? {
        guard let state = try StoreState.load(database), let logID = state.logID else { return nil }
        return LogPosition(logID: logID, offset: state.foldedThrough, hash: state.logHash)
    }

    /// One document of a catch-up: its key, its state, the position of its last change.
    public struct ChangedDocument {
        /// The document's id.
        public let id: DocumentID
        /// The commit or offset that last changed it.
        public let position: UInt64
        /// Its encoded state, valid during the visit.
        public let state: UnsafeRawBufferPointer
    }

    /// Visits the documents of a collection that changed after `position`, tombstones included, in the
    /// order of their last change; the visit returns false to stop.
    public func changes(
        in collection: CollectionName, after position: UInt64, _ visit: (ChangedDocument) throws -> Bool
    ) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        let statement = try RawStatement(
            reused: """
                SELECT id, position, state FROM documents_\(table) WHERE position > ?
                ORDER BY position, number
                """, database)
        statement.bind(1, bits: position)
        while try statement.step() {
            let document = ChangedDocument(
                id: DocumentID(trusted: statement.bytes(0)), position: statement.bits(1),
                state: statement.blob(2))
            guard try visit(document) else { return }
        }
    }

    /// Visits documents of a collection by id, tombstones included; the visit returns false to stop.
    func documents(
        of collection: CollectionName, after start: DocumentID?, through end: DocumentID?,
        _ visit: (DocumentID, UnsafeRawBufferPointer) throws -> Bool
    ) throws {
        try withDatabase { database in
            var collections = Collections()
            guard let table = try collections.number(of: collection, database) else { return }
            let bound = end == nil ? "" : "AND id <= ?2"
            let statement = try RawStatement(
                fresh: "SELECT id, state FROM documents_\(table) WHERE id > ?1 \(bound) ORDER BY id", database
            )
            statement.bind(1, start?.bytes ?? [])
            if let end { statement.bind(2, end.bytes) }
            while try statement.step() {
                guard try visit(DocumentID(trusted: statement.bytes(0)), statement.blob(1)) else { return }
            }
        }
    }

    func withDatabase<Result>(_ body: (Database) throws -> Result) rethrows -> Result { try body(database) }
}

/// Steps document rows and hands them out in place.
enum Scanner {
    static func scan(
        _ table: DocumentTable, _ database: Database, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        let hasDead = try table.statement(.dead, database).hasRow()
        let statement = try table.statement(hasDead ? .liveScan : .scan, database)
        while try statement.step() {
            let record = DocumentRecord(
                idInPlace: statement.blob(0), document: try DocumentReader(statement.blob(1)))
            guard try visit(record) else { return }
        }
    }

    /// Like `scan`; the records have no ids.
    static func scanFields(
        _ table: DocumentTable, _ database: Database, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        guard try !table.statement(.dead, database).hasRow() else { return try scan(table, database, visit) }
        let statement = try table.statement(.states, database)
        let noID = UnsafeRawBufferPointer(start: nil, count: 0)
        while try statement.step() {
            let record = DocumentRecord(idInPlace: noID, document: try DocumentReader(statement.blob(0)))
            guard try visit(record) else { return }
        }
    }

    static func lookup(
        _ table: DocumentTable, _ id: DocumentID, _ database: Database,
        _ visit: (DocumentRecord) throws -> Void
    ) throws {
        let statement = try table.statement(.lookup, database)
        statement.bind(1, id.bytes)
        guard try statement.step() else { return }
        try visit(DocumentRecord(id: id, document: try DocumentReader(statement.blob(0))))
    }

    /// The number of live documents in a table: all rows but the dead ones, which have an index of their
    /// own.
    static func count(_ table: DocumentTable, _ database: Database) throws -> Int {
        let statement = try RawStatement(
            reused: """
                SELECT (SELECT COUNT(*) FROM documents_\(table))
                    - (SELECT COUNT(*) FROM documents_\(table) WHERE live = 0)
                """, database)
        return try statement.step() ? Int(statement.int(0)) : 0
    }
}
