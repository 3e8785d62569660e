import CRDT
import DQL
import GRDB

/// The parts of both kinds of transactions that serve indexes.
protocol TableSource: AnyObject {
    var database: Database { get }
    var collections: Collections { get set }
}

extension ReadTransaction: TableSource {}
extension WriteTransaction: TableSource {}

extension TableSource {
    private func table(_ collection: CollectionName) throws -> DocumentTable? {
        try collections.number(of: collection, database)
    }

    /// The indexes of a collection as this transaction sees them.
    public func catalog(of collection: CollectionName) throws -> IndexCatalog {
        try table(collection)?.catalog(database).catalog ?? IndexCatalog(version: 0, indexes: [])
    }

    /// See `IndexedSource`.
    public func catalogVersion(of collection: CollectionName) throws -> UInt64 {
        try table(collection)?.catalogVersion(database) ?? 0
    }

    /// See `IndexedSource`. Documents with equal keys come in the order of `scan`, also against the index's
    /// order.
    public func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try table(scan.index.collection) else { return }
        try IndexScanner(table: table, database: database).documents(of: scan, visit)
    }

    /// See `IndexedSource`.
    public func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        guard let table = try table(scan.index.collection) else { return }
        try IndexScanner(table: table, database: database).entries(of: scan, parts, visit)
    }

    /// See `IndexedSource`.
    public func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        guard let table = try table(collection) else { return }
        let documents = try NumberedDocuments(table, database)
        for number in numbers { guard try documents.visit(number, visit) else { return } }
    }

    /// See `IndexedSource`.
    public func number(of id: DocumentID, in collection: CollectionName) throws -> Int64? {
        guard let table = try table(collection) else { return nil }
        let statement = try RawStatement(
            cached: "SELECT number FROM documents_\(table) WHERE id = ? AND live", database)
        statement.bind(1, id.bytes)
        return try statement.step() ? statement.int(0) : nil
    }

    /// See `IndexedSource`.
    public func numbers(
        of ranges: IDRanges, in collection: CollectionName, upTo most: Int
    ) throws -> [Int64]? {
        guard let table = try table(collection) else { return [] }
        var numbers: [Int64] = []
        for run in ranges.runs {
            let bound = ranges.bound(of: run)
            let statement = try RawStatement(
                cached: """
                    SELECT number FROM documents_\(table) WHERE live AND id >= ? AND id < ?
                    ORDER BY id \(bound?.fromEnd ?? false ? "DESC" : "ASC") LIMIT ?
                    """, database)
            statement.bind(1, run.lower)
            statement.bind(2, run.upper)
            statement.bind(3, Int64(min(bound?.count ?? .max, most + 1 - numbers.count)))
            while try statement.step() { numbers.append(statement.int(0)) }
            guard numbers.count <= most else { return nil }
        }
        return numbers
    }

    /// See `IndexedSource`.
    public func count(of scan: IndexScan) throws -> Int {
        guard let table = try table(scan.index.collection) else { return 0 }
        return try IndexScanner(table: table, database: database).count(of: scan, upTo: .max)
    }

    /// The number of live documents in a collection; reads none of them.
    public func count(of collection: CollectionName) throws -> Int {
        try table(collection).map { try Scanner.count($0, database) } ?? 0
    }
}
