import CRDT
import DQL

/// The indexes of a snapshot: statements on the columns of keys, run as other parts in SQL are.
extension ProjectionSnapshot: IndexedSource {
    /// None where nothing may run in SQL.
    public var indexed: (any IndexedSource)? { pushing == nil ? nil : self }

    /// See `IndexedSource`.
    public func catalog(of collection: CollectionName) throws -> IndexCatalog {
        let indexes = try columns()[collection]?.indexes.map(\.description) ?? []
        return IndexCatalog(
            version: catalogVersion(of: collection),
            indexes: indexes.sorted { compareBytes(Array($0.name.utf8), Array($1.name.utf8)) < 0 })
    }

    /// See `IndexedSource`. Plans are kept for all databases of a process: each generation counts by itself,
    /// and its number is the server's.
    public func catalogVersion(of collection: CollectionName) -> UInt64 {
        UInt64(UInt32(bitPattern: generation)) << 32 | indexVersion & 0xFFFF_FFFF
    }

    /// The indexes of all collections.
    public func indexes() throws -> [IndexDescription] {
        try columns().values.flatMap { $0.indexes.map(\.description) }
    }

    /// The catalog, read once a version and connection.
    func columns() throws -> [CollectionName: KeyColumns] {
        if let known = connection.knownIndexes, known.schema == schema, known.version == indexVersion {
            return known.columns
        }
        try begin()
        let read = try KeyColumns.all(of: generation, connection)
        connection.knownIndexes = KnownIndexes(schema: schema, version: indexVersion, columns: read)
        return read
    }

    /// See `PushingSource`.
    public func keyColumn(of index: IndexDescription) throws -> KeyColumn? {
        let found = try columns()[index.collection]?.indexes.first {
            utf8Equal($0.description.name, index.name) && $0.description.keys == index.keys
        }
        return found.map { KeyColumn(number: $0.column, partBytes: $0.partBytes) }
    }

    private func column(of scan: IndexScan) throws -> KeyColumn {
        guard let column = try keyColumn(of: scan.index) else {
            preconditionFailure("a scan is of an index that its snapshot has")
        }
        return column
    }

    /// See `IndexedSource`.
    public func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        let statement = PushedStatement.entries(
            of: scan, try column(of: scan), withDocuments: true, withIDs: true)
        try documents(of: statement, visit)
    }

    /// See `IndexedSource`. An entry has no number: SQL does what numbers are for.
    public func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        let withIDs = parts.contains(.id)
        let statement = PushedStatement.entries(
            of: scan, try column(of: scan), withDocuments: false, withIDs: withIDs)
        try read(statement, named: withIDs ? "entries" : "keys") { rows in
            for row in 0..<rows.count {
                let values = parts.contains(.values) ? try Self.values(of: scan.index, rows, row) : []
                let id =
                    withIDs
                    ? DocumentID(trusted: rows.bytes(row, rows.isNull(row, 2) ? 1 : 2)) : nil
                guard try visit(IndexEntry(document: 0, id: id, values: values)) else { return false }
            }
            return true
        }
    }

    /// See `PushingSource`.
    public func groups(
        of scan: IndexScan, needsFirst: Bool, _ visit: (IndexGroup) throws -> Bool
    ) throws {
        let statement = PushedStatement.groups(of: scan, try column(of: scan), needsFirst: needsFirst)
        try read(statement, named: "groups") { rows in
            for row in 0..<rows.count {
                let group = IndexGroup(
                    values: try Self.values(of: scan.index, rows, row), count: rows.int8(row, 1),
                    first: rows.bytes(row, 2))
                guard try visit(group) else { return false }
            }
            return true
        }
    }

    private static func values(
        of index: IndexDescription, _ rows: Rows, _ row: Int
    ) throws(ProjectionError) -> [Value?] {
        do {
            return try withExtendedLifetime(rows) { () throws(KeyDamage) in
                try KeyReader.values(of: index.keys, in: rows.raw(row, 0))
            }
        } catch {
            throw ProjectionError(.damaged, "a key of the index \(index.name) cannot be read")
        }
    }

    /// See `IndexedSource`: the counted number, or the counted rows of a table that is older than the count.
    public func count(of collection: CollectionName) throws -> Int {
        guard try table(collection) != nil else { return 0 }
        return try counted(collection) ?? number(.count(of: collection))
    }

    /// The counted number of a collection's documents; nil if its table is older than the count.
    func counted(_ collection: CollectionName) throws -> Int? {
        let rows = try query(
            """
            SELECT documents FROM mimeo_projection.collections WHERE generation = $1::int4 AND name = $2
            """, [.int8(Int64(generation)), .bytes(Array(collection.text.utf8))])
        return rows.count == 1 && !rows.isNull(0, 0) ? Int(rows.int8(0, 0)) : nil
    }

    /// See `IndexedSource`.
    public func count(of scan: IndexScan) throws -> Int {
        try number(.count(of: scan, try column(of: scan)))
    }

    private func number(_ statement: PushedStatement) throws -> Int {
        var number = 0
        try read(statement, named: "count") { rows in
            if rows.count > 0 { number = Int(rows.int8(0, 0)) }
            return false
        }
        return number
    }

    /// Never asked: the planner leaves to SQL what numbers of documents are for.
    public func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        preconditionFailure("documents in PostgreSQL have no numbers")
    }

    /// See `documents(_:numbered:_:)`.
    public func numbers(
        of ranges: IDRanges, in collection: CollectionName, upTo most: Int
    ) throws -> [Int64]? {
        preconditionFailure("documents in PostgreSQL have no numbers")
    }

    /// See `documents(_:numbered:_:)`.
    public func number(of id: DocumentID, in collection: CollectionName) throws -> Int64? {
        preconditionFailure("documents in PostgreSQL have no numbers")
    }
}
