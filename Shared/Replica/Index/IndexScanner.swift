import CRDT
import DQL
import GRDB

/// Steps the entries of indexes, and reads their documents, within one transaction.
struct IndexScanner {
    let table: DocumentTable
    let database: Database

    /// See `IndexedSource.documents(of:)`. Documents with equal keys come in the order of a scan, in either
    /// direction of the index.
    func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        try run(scan, .documents) { statement in
            try visit(
                DocumentRecord(
                    idInPlace: statement.blob(0), document: try DocumentReader(statement.blob(1))))
        }
    }

    /// See `IndexedSource.entries`; entries with equal keys come in the order of a scan, too.
    func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        try run(scan, parts.contains(.id) ? .entriesWithIDs : .entries) { statement in
            var values: [Value?] = []
            if parts.contains(.values) {
                values =
                    statement.isNull(1)
                    ? try Self.values(of: scan.index.keys, in: statement.blob(2))
                    : try EntryValues.decode(statement.blob(1))
            }
            return try visit(
                IndexEntry(
                    document: statement.int(3),
                    id: parts.contains(.id) ? DocumentID(trusted: statement.bytes(0)) : nil, values: values))
        }
    }

    private static func values(
        of keys: [IndexDescription.Key], in key: UnsafeRawBufferPointer
    ) throws(ReplicaError) -> [Value?] {
        do {
            return try KeyReader.values(of: keys, in: key)
        } catch {
            throw ReplicaError(.damaged, "an index entry cannot be read; drop the index")
        }
    }

    /// The number of entries in a scan, counted up to `most`.
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

    /// Steps a scan's entries in its order until a visit returns false.
    private func run(
        _ scan: IndexScan, _ columns: IndexStatement.Columns,
        _ visit: (borrowing RawStatement) throws -> Bool
    ) throws {
        guard let index = try index(scan) else { return }
        if scan.ranges.count == 1, !scan.isReversed {
            let interval = KeyInterval(scan.ranges[0], of: index.description.keys)
            _ = try ascending(interval, index, columns, visit)
            return
        }
        let intervals = intervals(scan)
        guard !scan.isReversed else {
            for interval in intervals.reversed() {
                guard try reversed(interval, index, columns, visit) else { return }
            }
            return
        }
        for interval in intervals {
            guard try ascending(interval, index, columns, visit) else { return }
        }
    }

    /// Steps the entries of an interval in the index's order; false when a visit ended it.
    private func ascending(
        _ interval: KeyInterval, _ index: StoredIndex, _ columns: IndexStatement.Columns,
        _ visit: (borrowing RawStatement) throws -> Bool
    ) throws -> Bool {
        let statement = try table.statement(IndexStatement(index, .ascending, columns), database)
        return try interval.lower.withUnsafeBytes { lower in
            try interval.upper.withUnsafeBytes { upper in
                statement.bind(1, inPlace: lower)
                statement.bind(2, inPlace: upper)
                defer { statement.reset() }
                while try statement.step() { guard try visit(statement) else { return false } }
                return true
            }
        }
    }

    /// Steps the entries of an interval against the index's order, but those with equal keys ascending: a
    /// statement of its own reads them, so none has to be kept in memory, however many share a key. Returns
    /// false when a visit ended it.
    private func reversed(
        _ interval: KeyInterval, _ index: StoredIndex, _ columns: IndexStatement.Columns,
        _ visit: (borrowing RawStatement) throws -> Bool
    ) throws -> Bool {
        let statement = try table.statement(IndexStatement(index, .descending, columns), database)
        let before = try table.statement(IndexStatement(index, .before, .entries), database)
        statement.bind(1, interval.lower)
        statement.bind(2, interval.upper)
        while try statement.step() {
            before.bind(1, statement.blob(2))
            before.bind(2, statement.int(3))
            let isAlone = try !before.step()
            before.reset()
            guard !isAlone else {
                guard try visit(statement) else { return false }
                continue
            }
            let key = statement.bytes(2)
            let group = try table.statement(IndexStatement(index, .oneKey, columns), database)
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
        let found = try table.index(named: scan.index.name, database)
        precondition(
            found?.description.keys == scan.index.keys, "a scan is of an index that its snapshot has")
        return found
    }
}

/// A statement on an index: selects its entries, their order and their columns.
struct IndexStatement: Hashable {
    enum Entries {
        /// Entries from a key on, up to and without another one.
        case ascending
        /// The same in descending order.
        case descending
        /// Entries with one key.
        case oneKey
        /// An entry with a key before a document.
        case before
    }

    enum Columns {
        case entries
        case entriesWithIDs
        case documents
    }

    private let index: Int64
    private let entries: Entries
    private let columns: Columns

    init(_ index: StoredIndex, _ entries: Entries, _ columns: Columns) {
        self.index = index.number
        self.entries = entries
        self.columns = columns
    }

    func text(of table: DocumentTable) -> String {
        if entries == .before { return "SELECT 1 FROM index_\(index) WHERE key = ? AND document < ?" }
        let documents = "CROSS JOIN documents_\(table) AS d ON d.number = i.document"
        // Columns 2 and 3 are the key and the document's number, if they are needed.
        let columns =
            switch columns {
            case .entries: "NULL, i.held, i.key, i.document FROM index_\(index) AS i"
            case .entriesWithIDs: "d.id, i.held, i.key, i.document FROM index_\(index) AS i \(documents)"
            case .documents where entries == .ascending: "d.id, d.state FROM index_\(index) AS i \(documents)"
            case .documents: "d.id, d.state, i.key, i.document FROM index_\(index) AS i \(documents)"
            }
        let range = "i.key >= ? AND i.key < ?"
        return switch entries {
        case .ascending: "SELECT \(columns) WHERE \(range) ORDER BY i.key, i.document"
        case .descending: "SELECT \(columns) WHERE \(range) ORDER BY i.key DESC, i.document DESC"
        case .oneKey, .before: "SELECT \(columns) WHERE i.key = ? ORDER BY i.document"
        }
    }
}

/// Reads documents by their numbers, one after the other.
struct NumberedDocuments: ~Copyable {
    private let statement: RawStatement

    init(_ table: DocumentTable, _ database: Database) throws {
        statement = try table.statement(.numbered, database)
    }

    /// Visits a document if it is live; true if there is none.
    func visit(_ number: Int64, _ visit: (DocumentRecord) throws -> Bool) throws -> Bool {
        statement.bind(1, number)
        defer { statement.reset() }
        guard try statement.step() else { return true }
        return try visit(
            DocumentRecord(idInPlace: statement.blob(0), document: try DocumentReader(statement.blob(1))))
    }
}
