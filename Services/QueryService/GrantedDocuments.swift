import CRDT
import DQL
import Identity

/// A snapshot limited to its reader's rights. Documents that the reader may not read do not appear, however a
/// statement looks for them (scan, id, index, join, subquery, RETURNING).
///
/// The rights are checked apart from the statement's condition and never become query text. A writer cannot
/// write a document that it cannot read; a statement fails if it meets one that it may read but not write.
struct GrantedDocuments: DocumentSource {
    let base: any DocumentSource
    let rules: CompiledRules

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard !rules.allowsAll(of: collection) else { return try base.scan(collection, visit) }
        guard rules.allowsAny(of: collection) else { return }
        try base.scan(collection) { record in
            try !rules.allows(collection, record.id) || visit(record)
        }
    }

    func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        guard rules.allows(collection, id) else { return }
        try base.lookup(collection, id, visit)
    }

    var indexed: (any IndexedSource)? {
        base.indexed.map { GrantedIndexes(base: $0, readable: self) }
    }

    var pushing: (any PushingSource)? {
        base.pushing.map { GrantedPushing(base: $0, readable: self) }
    }
}

/// A source whose documents are those that its reader may read.
protocol ReadableDocuments: DocumentSource {
    var readable: GrantedDocuments { get }
}

extension ReadableDocuments {
    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        try readable.scan(collection, visit)
    }

    func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        try readable.lookup(collection, id, visit)
    }
}

/// `GrantedDocuments` with the snapshot's SQL. SQL filters documents, and unreadable ones are dropped from
/// its result; it counts, groups and bounds only collections that the reader may read as a whole.
struct GrantedPushing: PushingSource, ReadableDocuments {
    let base: any PushingSource
    let readable: GrantedDocuments

    private var rules: CompiledRules { readable.rules }

    func decides(_ collection: CollectionName) -> Bool {
        rules.allowsAll(of: collection) && base.decides(collection)
    }

    /// The planner asks SQL for no more than the reader may have it decide: whole collections are bounded,
    /// put in order and grouped. A statement that gets past that is refused.
    private func require(_ isAllowed: Bool, _ collection: CollectionName) throws(QueryError) {
        guard isAllowed else { throw QueryError(.readNotGranted, "the whole of \(collection)") }
    }

    func showsAny(of collection: CollectionName) -> Bool {
        rules.allowsAny(of: collection) && base.showsAny(of: collection)
    }

    func documents(of statement: PushedStatement, _ visit: (DocumentRecord) throws -> Bool) throws {
        let collection = statement.collection
        guard !rules.allowsAll(of: collection) else { return try base.documents(of: statement, visit) }
        try require(statement.part == .filter, collection)
        guard rules.allowsAny(of: collection) else { return }
        try base.documents(of: statement) { record in
            try !rules.allows(collection, record.id) || visit(record)
        }
    }

    func documents(
        inOrderOf statement: PushedStatement, _ visit: (DocumentRecord, PushedPlace) throws -> Bool
    ) throws {
        try require(rules.allowsAll(of: statement.collection), statement.collection)
        try base.documents(inOrderOf: statement, visit)
    }

    func pairs(
        of statement: PushedStatement,
        _ visit: (DocumentRecord, PushedPlace, DocumentRecord?) throws -> Bool
    ) throws {
        let (left, right) = (statement.collection, statement.joined ?? statement.collection)
        if rules.allowsAll(of: left), rules.allowsAll(of: right) {
            return try base.pairs(of: statement, visit)
        }
        try require(statement.part == .join, left)
        guard rules.allowsAny(of: left) else { return }
        try require(rules.allowsAny(of: right), right)
        try base.pairs(of: statement) { document, place, partner in
            guard rules.allows(left, document.id) else { return true }
            return try visit(document, place, partner.flatMap { rules.allows(right, $0.id) ? $0 : nil })
        }
    }

    func size(of collection: CollectionName) throws -> Int? {
        rules.allowsAny(of: collection) ? try base.size(of: collection) : 0
    }

    func rows(of statement: PushedStatement, _ visit: ([String?]) throws -> Bool) throws {
        for collection in [statement.collection] + [statement.joined].compactMap(\.self) {
            try require(rules.allowsAll(of: collection), collection)
        }
        try base.rows(of: statement, visit)
    }

    func documents(
        _ collection: CollectionName, ids: ArraySlice<DocumentID>, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        let allowed = ids.filter { rules.allows(collection, $0) }
        guard !allowed.isEmpty else { return }
        try base.documents(collection, ids: allowed[...], visit)
    }

    func explanation(of statement: PushedStatement) throws -> PushedExplanation {
        try base.explanation(of: statement)
    }

    func keyColumn(of index: IndexDescription) throws -> KeyColumn? { try base.keyColumn(of: index) }

    func groups(
        of scan: IndexScan, needsFirst: Bool, _ visit: (IndexGroup) throws -> Bool
    ) throws {
        try require(rules.allowsAll(of: scan.index.collection), scan.index.collection)
        try base.groups(of: scan, needsFirst: needsFirst, visit)
    }
}

/// `GrantedDocuments` with the snapshot's indexes.
struct GrantedIndexes: IndexedSource, ReadableDocuments {
    let base: any IndexedSource
    let readable: GrantedDocuments

    private var rules: CompiledRules { readable.rules }

    var pushing: (any PushingSource)? { readable.pushing }

    func catalog(of collection: CollectionName) throws -> IndexCatalog { try base.catalog(of: collection) }

    func catalogVersion(of collection: CollectionName) throws -> UInt64 {
        try base.catalogVersion(of: collection)
    }

    func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        let collection = scan.index.collection
        guard !rules.allowsAll(of: collection) else { return try base.documents(of: scan, visit) }
        try base.documents(of: scan) { record in
            try !rules.allows(collection, record.id) || visit(record)
        }
    }

    func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        let collection = scan.index.collection
        guard !rules.allowsAll(of: collection) else { return try base.entries(of: scan, parts, visit) }
        try base.entries(of: scan, parts.union(.id)) { entry in
            guard let id = entry.id, rules.allows(collection, id) else { return true }
            return try visit(entry)
        }
    }

    func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        try base.documents(collection, numbered: numbers) { record in
            try !rules.allows(collection, record.id) || visit(record)
        }
    }

    func number(of id: DocumentID, in collection: CollectionName) throws -> Int64? {
        rules.allows(collection, id) ? try base.number(of: id, in: collection) : nil
    }

    func numbers(
        of ranges: IDRanges, in collection: CollectionName, upTo most: Int
    ) throws -> [Int64]? {
        try base.numbers(of: ranges, in: collection, upTo: most)
    }

    func showsAll(of collection: CollectionName) -> Bool { rules.allowsAll(of: collection) }

    func count(of scan: IndexScan) throws -> Int {
        guard !rules.allowsAll(of: scan.index.collection) else { return try base.count(of: scan) }
        var count = 0
        try entries(of: scan, []) { _ in
            count += 1
            return true
        }
        return count
    }

    func count(of collection: CollectionName) throws -> Int {
        guard !rules.allowsAll(of: collection) else { return try base.count(of: collection) }
        var count = 0
        try scan(collection) { _ in
            count += 1
            return true
        }
        return count
    }
}

/// A write transaction limited to its writer's rights.
struct GrantedWriter: DocumentWriter, ReadableDocuments {
    let base: any DocumentWriter
    let rights: CompiledGrant

    var readable: GrantedDocuments { GrantedDocuments(base: base, rules: rights.read) }

    private func check(_ collection: CollectionName, _ id: DocumentID) throws(QueryError) {
        guard rights.write.allows(collection, id) else {
            throw QueryError(.writeNotGranted, "a document of \(collection)")
        }
    }

    var indexed: (any IndexedSource)? { readable.indexed }
    var pushing: (any PushingSource)? { readable.pushing }

    /// Returns whether the document exists, but only if the writer may write it.
    func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        try check(collection, id)
        return try base.exists(collection, id)
    }

    func edit(
        _ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void
    ) throws {
        try check(collection, id)
        try base.edit(collection, id, body)
    }

    func insert(
        _ collection: CollectionName, _ id: DocumentID, _ fields: ObjectValue, declared: TypeDeclaration,
        objectsAreRegisters: Bool
    ) throws -> Bool {
        try check(collection, id)
        return try base.insert(
            collection, id, fields, declared: declared, objectsAreRegisters: objectsAreRegisters)
    }

    func expect(_ collection: CollectionName, _ ids: ArraySlice<DocumentID>) throws {
        try base.expect(collection, ids)
    }

    func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        for id in ids { try check(collection, id) }
        try base.evict(collection, ids)
    }
}

extension CompiledGrant {
    /// Returns whether the grant covers all documents of a statement, so that they need no check one by one.
    func coversWhole(_ statement: PreparedStatement) -> Bool {
        statement.collectionsRead.allSatisfy { read.allowsAll(of: $0) || $0.text.hasPrefix("system:") }
            && statement.collectionsWritten.allSatisfy { write.allowsAll(of: $0) }
    }
}
