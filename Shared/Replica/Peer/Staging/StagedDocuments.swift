import CRDT
import GRDB

/// Documents of a subscription's first catch-up, written once, where they will stay: into a documents table
/// that is no collection's. When the catch-up ends, it becomes the collection's in one step, whatever it
/// holds (decision 0022).
///
/// Only for a collection without documents and without indexes here, and as long as nothing but states comes:
/// anything else goes to `StagedPages`, and all that follows, so that the order stays. A document's position
/// is of the commit that staged it.
struct StagedDocuments {
    /// The collection that the documents belong to.
    let collection: CollectionName
    private let table: DocumentTable

    private init(_ collection: CollectionName, _ number: Int64) {
        self.collection = collection
        table = DocumentTable(number, collection, nil, isSnapshot: false)
    }

    /// The documents staged for a subscription in this way; nil when none are.
    static func find(_ subscription: [UInt8], _ database: Database) throws -> StagedDocuments? {
        let statement = try RawStatement(
            cached: "SELECT number, collection FROM staged_documents WHERE subscription = ?", database,
            subscription)
        guard try statement.step() else { return nil }
        return StagedDocuments(CollectionName(statement.text(1)), statement.int(0))
    }

    /// Stages a page's states, which were checked; false where they must be kept as a page. `arePlain` says
    /// of each whether it was found to be nothing but an insertion.
    static func take(
        _ updates: [DocumentUpdate], arePlain: [Bool], for subscription: [UInt8], position: UInt64,
        _ database: Database
    ) throws -> Bool {
        guard let collection = updates.first?.key.collection,
            updates.allSatisfy({ $0.content.isState && $0.key.collection == collection }),
            try !StagedPages.holdsAny(subscription, database),
            let staged = try find(subscription, database) ?? begin(subscription, collection, database),
            staged.collection == collection
        else { return false }
        for (update, isPlain) in zip(updates, arePlain) {
            guard case .state(let bytes) = update.content else { continue }
            try staged.add(bytes, update.key.id, isPlain: isPlain, position, database)
        }
        return true
    }

    private static func begin(
        _ subscription: [UInt8], _ collection: CollectionName, _ database: Database
    ) throws -> StagedDocuments? {
        guard collection.text.utf8.count <= CRDT.Limits.collectionNameBytes, !collection.text.isEmpty,
            try isFree(collection, database)
        else { return nil }
        let number = try Collections.freeNumber(database)
        try database.run(
            "INSERT INTO staged_documents (subscription, number, collection) VALUES (?, ?, ?)",
            subscription, number, collection.text)
        try Schema.createDocuments(number, database)
        return StagedDocuments(collection, number)
    }

    /// Returns whether a collection has neither documents nor indexes.
    private static func isFree(_ collection: CollectionName, _ database: Database) throws -> Bool {
        var collections = Collections()
        guard let table = try collections.number(of: collection, database) else { return true }
        guard try table.indexes(database).isEmpty else { return false }
        return try !RawStatement(cached: "SELECT 1 FROM documents_\(table) LIMIT 1", database).hasRow()
    }

    private func add(
        _ state: EncodedState, _ id: DocumentID, isPlain: Bool, _ position: UInt64, _ database: Database
    ) throws {
        var isLive = true
        if !isPlain {
            let isEmpty = try state.withUnsafeBytes { bytes in
                let reader = try DocumentReader(bytes)
                isLive = reader.isLive
                return try !isLive && reader.vector().isEmpty
            }
            guard !isEmpty else { return }
        }
        let statement = try table.statement(.addition, database)
        statement.bind(2, isLive ? 1 : 0)
        statement.bind(3, bits: position)
        try statement.run(1, id.bytes, 4, state.bytes)
        guard database.changesCount == 0, let before = try DocumentRows.state(table, id, database) else {
            return
        }
        // It has changed since an earlier page, or came from an instance that was further.
        var document = try Document(decoding: before)
        document.merge(try Document(decoding: state))
        try DocumentRows.put(
            table, id, live: document.isLive, position: position, state: document.encoded(), database)
    }

    /// Hands out what is staged of a document, in place; nil when nothing is.
    func withState<Result>(
        of key: DocumentKey, _ database: Database, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result? {
        guard key.collection == collection else { return nil }
        let statement = try RawStatement(cached: TableStatement.state.text(of: table), database)
        statement.bind(1, key.id.bytes)
        return try statement.step() ? body(statement.blob(0)) : nil
    }

    /// Visits what is staged.
    func visit(
        _ database: Database, _ body: (DocumentID, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let statement = try RawStatement(
            fresh: "SELECT id, state FROM documents_\(table) ORDER BY number", database)
        while try statement.step() {
            try body(DocumentID(trusted: statement.bytes(0)), statement.blob(1))
        }
    }

    /// The documents' ids, whose order is nobody's concern; reads no document.
    func ids(_ database: Database) throws -> [DocumentID] {
        let statement = try RawStatement(fresh: "SELECT id FROM documents_\(table)", database)
        var ids: [DocumentID] = []
        while try statement.step() { ids.append(DocumentID(trusted: statement.bytes(0))) }
        return ids
    }

    /// Makes the table the collection's, where that still has neither documents nor indexes; whether it did.
    func become(_ database: Database) throws -> Bool {
        guard try Self.isFree(collection, database) else { return false }
        var collections = Collections()
        if let old = try collections.number(of: collection, database) {
            try Self.run("DELETE FROM collection WHERE number = ?", old.number, database)
            try database.execute(sql: "DROP TABLE documents_\(old)")
        }
        try Self.run("DELETE FROM staged_documents WHERE number = ?", table.number, database)
        try database.run(
            "INSERT INTO collection (number, name) VALUES (?, ?)", table.number, collection.text)
        return true
    }

    /// Forgets what is staged for a subscription in this way.
    static func discard(_ subscription: [UInt8], _ database: Database) throws {
        guard let staged = try find(subscription, database) else { return }
        try run("DELETE FROM staged_documents WHERE number = ?", staged.table.number, database)
        try database.execute(sql: "DROP TABLE documents_\(staged.table)")
    }

    private static func run(_ sql: String, _ number: Int64, _ database: Database) throws {
        let statement = try RawStatement(cached: sql, database)
        statement.bind(1, number)
        try statement.run()
    }
}
