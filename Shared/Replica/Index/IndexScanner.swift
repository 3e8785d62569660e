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
        guard let index = try index(scan) else { return }
        if scan.isReversed {
            let documents = try NumberedDocuments(table, database)
            _ = try reversed(scan, index) { try documents.visit($0, visit) }
            return
        }
        for interval in intervals(scan) {
            let statement = try RawStatement(
                reused: """
                    SELECT d.id, d.state FROM index_\(index.number) AS i
                    CROSS JOIN documents_\(table) AS d ON d.number = i.document
                    WHERE i.key >= ? AND i.key < ? ORDER BY i.key, i.document
                    """, database)
            statement.bind(1, interval.lower)
            statement.bind(2, interval.upper)
            while try statement.step() {
                let record = DocumentRecord(
                    id: DocumentID(trusted: statement.bytes(0)),
                    document: try DocumentReader(statement.blob(1)))
                guard try visit(record) else { return }
            }
        }
    }

    /// See `IndexedSource.entries`.
    func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        guard let index = try index(scan) else { return }
        let intervals = intervals(scan)
        let order = scan.isReversed ? "ORDER BY i.key DESC, i.document DESC" : "ORDER BY i.key, i.document"
        let documents =
            parts.contains(.id)
            ? "CROSS JOIN documents_\(table) AS d ON d.number = i.document" : ""
        let columns =
            (parts.contains(.values) ? "i.key, i.held" : "0, 0") + (parts.contains(.id) ? ", d.id" : "")
        for interval in scan.isReversed ? intervals.reversed() : intervals {
            let statement = try RawStatement(
                reused: """
                    SELECT i.document, \(columns) FROM index_\(index.number) AS i \(documents)
                    WHERE i.key >= ? AND i.key < ? \(order)
                    """, database)
            statement.bind(1, interval.lower)
            statement.bind(2, interval.upper)
            while try statement.step() {
                var values: [Value?] = []
                if parts.contains(.values) {
                    values =
                        statement.isNull(2)
                        ? try KeyReader.values(of: scan.index.keys, in: statement.blob(1))
                        : try HeldValues.decode(statement.blob(2))
                }
                let entry = IndexEntry(
                    document: statement.int(0),
                    id: parts.contains(.id) ? DocumentID(trusted: statement.bytes(3)) : nil, values: values)
                guard try visit(entry) else { return }
            }
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

    /// Visits the numbers against the index's order, those of one key ascending. Returns false when a visit
    /// ended it.
    private func reversed(
        _ scan: IndexScan, _ index: StoredIndex, _ visit: (Int64) throws -> Bool
    ) throws -> Bool {
        for interval in intervals(scan).reversed() {
            let statement = try RawStatement(
                reused: """
                    SELECT key, document FROM index_\(index.number)
                    WHERE key >= ? AND key < ? ORDER BY key DESC, document DESC
                    """, database)
            statement.bind(1, interval.lower)
            statement.bind(2, interval.upper)
            var key: [UInt8] = []
            var group: [Int64] = []
            while try statement.step() {
                let found = statement.blob(0)
                if !group.isEmpty, !key.withUnsafeBytes({ compareBytes($0, found) == 0 }) {
                    for number in group.reversed() { guard try visit(number) else { return false } }
                    group.removeAll(keepingCapacity: true)
                }
                if group.isEmpty { key = [UInt8](found) }
                group.append(statement.int(1))
            }
            for number in group.reversed() { guard try visit(number) else { return false } }
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
