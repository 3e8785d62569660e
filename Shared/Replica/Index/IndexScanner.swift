import CRDT
import DQL
import GRDB

/// Steps the entries of indexes, and reads the documents behind them, within one transaction.
struct IndexScanner {
    let table: DocumentTable
    let database: Database

    /// See `IndexedSource.documents(of:)`. Documents of one key come in the order of a scan, whichever way
    /// the index is read.
    func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        try run(scan, columns: "i.key, i.document, d.id, d.state", readsDocuments: true) { statement in
            try visit(
                DocumentRecord(
                    id: DocumentID(trusted: statement.bytes(2)),
                    document: try DocumentReader(statement.blob(3))))
        }
    }

    /// See `IndexedSource.entries`; those of one key in the order of a scan, too.
    func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        let columns = "i.key, i.document, i.held" + (parts.contains(.id) ? ", d.id" : "")
        try run(scan, columns: columns, readsDocuments: parts.contains(.id)) { statement in
            var values: [Value?] = []
            if parts.contains(.values) {
                values =
                    statement.isNull(2)
                    ? try KeyReader.values(of: scan.index.keys, in: statement.blob(0))
                    : try HeldValues.decode(statement.blob(2))
            }
            return try visit(
                IndexEntry(
                    document: statement.int(1),
                    id: parts.contains(.id) ? DocumentID(trusted: statement.bytes(3)) : nil, values: values))
        }
    }

    /// How many entries a scan has, counted up to `most`.
    func count(of scan: IndexScan, upTo most: Int) throws -> Int {
        guard let index = try index(scan) else { return 0 }
        var count = 0
        for interval in intervals(scan) where count < most {
            let statement = try RawStatement(
                reused: """
                    SELECT COUNT(*) FROM (SELECT 1 FROM index_\(index.number)
                    WHERE key >= ? AND key < ? LIMIT ?)
                    """, database)
            statement.bind(1, interval.lower)
            statement.bind(2, interval.upper)
            statement.bind(3, Int64(most - count))
            if try statement.step() { count += Int(statement.int(0)) }
        }
        return count
    }

    /// Steps a scan's entries in its order until a visit returns false. The first columns are `i.key` and
    /// `i.document`.
    private func run(
        _ scan: IndexScan, columns: String, readsDocuments: Bool,
        _ visit: (borrowing RawStatement) throws -> Bool
    ) throws {
        guard let index = try index(scan) else { return }
        let select =
            "SELECT \(columns) FROM index_\(index.number) AS i "
            + (readsDocuments ? "CROSS JOIN documents_\(table) AS d ON d.number = i.document " : "")
        let intervals = intervals(scan)
        guard !scan.isReversed else {
            for interval in intervals.reversed() {
                guard try reversed(interval, index, select, visit) else { return }
            }
            return
        }
        for interval in intervals {
            let statement = try RawStatement(
                reused: select + "WHERE i.key >= ? AND i.key < ? ORDER BY i.key, i.document", database)
            statement.bind(1, interval.lower)
            statement.bind(2, interval.upper)
            while try statement.step() { guard try visit(statement) else { return } }
        }
    }

    /// Steps the entries of an interval against the index's order, those of one key ascending all the same:
    /// they are read in a statement of their own, so that none of them has to be held, however many share a
    /// key. Returns false when a visit ended it.
    private func reversed(
        _ interval: KeyInterval, _ index: StoredIndex, _ select: String,
        _ visit: (borrowing RawStatement) throws -> Bool
    ) throws -> Bool {
        let statement = try RawStatement(
            reused: select + "WHERE i.key >= ? AND i.key < ? ORDER BY i.key DESC, i.document DESC", database)
        let before = try RawStatement(
            reused: "SELECT 1 FROM index_\(index.number) WHERE key = ? AND document < ?", database)
        statement.bind(1, interval.lower)
        statement.bind(2, interval.upper)
        while try statement.step() {
            before.bind(1, statement.blob(0))
            before.bind(2, statement.int(1))
            let isAlone = try !before.step()
            before.reset()
            guard !isAlone else {
                guard try visit(statement) else { return false }
                continue
            }
            let key = statement.bytes(0)
            let group = try RawStatement(
                reused: select + "WHERE i.key = ? ORDER BY i.document", database)
            group.bind(1, key)
            while try group.step() { guard try visit(group) else { return false } }
            statement.reset()
            statement.bind(2, key)
        }
        return true
    }

    private func intervals(_ scan: IndexScan) -> [KeyInterval] {
        KeyInterval.disjoint(scan.ranges.map { KeyInterval($0, of: scan.index.keys) })
    }

    private func index(_ scan: IndexScan) throws -> StoredIndex? {
        let found = try table.catalog(database).indexes.first {
            utf8Equal($0.description.name, scan.index.name)
        }
        precondition(
            found?.description.keys == scan.index.keys, "a scan is of an index that its snapshot has")
        return found
    }
}

/// Reads documents by their numbers, one after the other.
struct NumberedDocuments: ~Copyable {
    private let statement: RawStatement

    init(_ table: DocumentTable, _ database: Database) throws {
        statement = try RawStatement(
            reused: "SELECT id, state FROM documents_\(table) WHERE number = ? AND live", database)
    }

    /// Visits a document if it is live; true when there is none.
    func visit(_ number: Int64, _ visit: (DocumentRecord) throws -> Bool) throws -> Bool {
        statement.bind(1, number)
        defer { statement.reset() }
        guard try statement.step() else { return true }
        return try visit(
            DocumentRecord(
                id: DocumentID(trusted: statement.bytes(0)), document: try DocumentReader(statement.blob(1))))
    }
}
