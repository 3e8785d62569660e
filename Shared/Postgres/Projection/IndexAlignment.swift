import CRDT
import DQL
import Logging
import OperationLog

/// Makes the catalog of a generation's indexes that of the definitions: takes columns for new ones and gives
/// up those of dropped ones. From then on every batch writes the keys of a new index; an `IndexBuilder` does
/// the rest.
///
/// Runs on the worker's connection, between its batches.
struct IndexAlignment {
    let connection: Connection
    let logger: Logger

    /// Compares and changes.
    /// - Returns: false if something has to be tried again: a column is needed, and readers hold the table.
    func run(
        _ definitions: ProjectionIndexes, _ tables: inout CollectionTables, _ generation: inout Generation
    ) throws -> Bool {
        // SQL decides nothing on the tables of the first layout, and they are rebuilt at once.
        guard !tables.isPlain else { return true }
        let wanted = bounded(try read(definitions, tables))
        let present = tables.indexed.values.flatMap(\.indexes)
        let dropped = present.filter { index in !wanted.contains { Self.isSame($0, index.description) } }
        let added = wanted.filter { index in !present.contains { Self.isSame(index, $0.description) } }
        guard !dropped.isEmpty || !added.isEmpty else { return true }
        // Changes that need no table come first: the role may lack the right to make one.
        if !dropped.isEmpty {
            try change(&tables, &generation) {
                _ = try connection.query(
                    "DELETE FROM mimeo_projection.indexes WHERE number = ANY($1::int8[])",
                    [.int8Array(dropped.map(\.number))])
            }
        }
        var missing: [CollectionName: Offset] = [:]
        for index in added where tables.number(of: index.collection) == nil {
            missing[index.collection] = generation.position.offset
        }
        let placed = added.filter { missing[$0.collection] == nil }
        guard try add(placed, &tables, &generation) else { return false }
        try tables.require(missing)
        return try add(added.filter { missing[$0.collection] != nil }, &tables, &generation)
    }

    /// Takes columns for indexes of collections that have a table.
    /// - Returns: false if readers hold one of the tables.
    private func add(
        _ added: [IndexDescription], _ tables: inout CollectionTables, _ generation: inout Generation
    ) throws -> Bool {
        for index in added {
            do {
                guard let collection = tables.number(of: index.collection) else { continue }
                let schema = generation.number
                try change(&tables, &generation) { try add(index, to: collection, schema) }
            } catch let error as PostgresError where error.state == "55P03" {
                logger.debug("a table has readers: an index gets its column later")
                return false
            }
        }
        return true
    }

    private func read(
        _ definitions: ProjectionIndexes, _ tables: CollectionTables
    ) throws -> [IndexDescription] {
        do {
            return try definitions.all(WorkerDocuments(tables: tables, connection: connection))
        } catch let error as CRDTError {
            throw ProjectionError(.damaged, "the definition of an index cannot be read: \(error)")
        }
    }

    /// The indexes for which a table has room: a row of PostgreSQL has 8 KB, whatever its columns are.
    private func bounded(_ wanted: [IndexDescription]) -> [IndexDescription] {
        var counts: [CollectionName: Int] = [:]
        let sorted = wanted.sorted { compareBytes(Array($0.name.utf8), Array($1.name.utf8)) < 0 }
        let kept = sorted.filter { index in
            counts[index.collection, default: 0] += 1
            return counts[index.collection, default: 0] <= PostgresLimits.indexesOfTable
        }
        if kept.count < wanted.count {
            logger.warning(
                "a collection has more indexes than a table has room for: the last by name are not built",
                metadata: ["limit": "\(PostgresLimits.indexesOfTable)"])
        }
        return kept
    }

    private static func isSame(_ one: IndexDescription, _ other: IndexDescription) -> Bool {
        one.collection == other.collection && utf8Equal(one.name, other.name) && one.keys == other.keys
    }

    /// The statement that gives a catalog its next version, and returns it.
    static func newVersion(of generation: Int32) -> Connection.Step {
        Connection.Step(
            """
            UPDATE mimeo_projection.generations SET index_version = index_version + 1
            WHERE number = $1::int4 RETURNING index_version
            """, [.int8(Int64(generation))])
    }

    private func change(
        _ tables: inout CollectionTables, _ generation: inout Generation, _ body: () throws -> Void
    ) throws {
        try connection.run("BEGIN")
        do {
            // Locked before the tables, as by everybody (`FoldRide`).
            _ = try connection.query(Generation.lock(generation.number))
            try body()
            let version = Self.newVersion(of: generation.number)
            let rows = try connection.query(version.sql, version.parameters)
            try connection.run("COMMIT")
            generation.indexVersion = rows.bits(0, 0)
        } catch {
            try connection.undo(after: error)
            throw error
        }
        try tables.reloadIndexes()
    }

    private func add(_ index: IndexDescription, to collection: Int64, _ generation: Int32) throws {
        let key = Parameter.int8(collection)
        let rows = try connection.query(
            """
            SELECT key_columns::int8, (
                SELECT min(n) FROM generate_series(0, key_columns) AS n WHERE NOT EXISTS (
                    SELECT 1 FROM mimeo_projection.indexes WHERE collection = $1 AND column_number = n))::int8
            FROM mimeo_projection.collections WHERE number = $1
            """, [key])
        let (made, column) = (rows.int8(0, 0), rows.int8(0, 1))
        if column >= made {
            let timeout = PostgresLimits.columnLockTimeout.wholeMicroseconds / 1_000
            try connection.run(
                """
                SET LOCAL lock_timeout = '\(timeout)ms';
                ALTER TABLE \(ProjectionNames.table(generation, collection)) ADD COLUMN k\(column) bytea
                """)
        }
        _ = try connection.query(
            """
            INSERT INTO mimeo_projection.indexes (generation, collection, name, keys, column_number)
            VALUES ($1::int4, $2, $3, $4, $5::int4)
            """,
            [
                .int8(Int64(generation)), key, .bytes(Array(index.name.utf8)),
                .bytes(KeyForm.encode(index.keys)), .int8(column),
            ])
        _ = try connection.query(
            """
            UPDATE mimeo_projection.collections SET key_columns = greatest(key_columns, $2::int4),
                used_columns = greatest(used_columns, $2::int4) WHERE number = $1
            """, [key, .int8(column + 1)])
    }
}

/// The documents of a generation as its worker sees them, for the definitions.
private struct WorkerDocuments: DocumentSource {
    let tables: CollectionTables
    let connection: Connection

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard tables.number(of: collection) != nil else { return }
        let rows = try connection.query(
            "SELECT id, whole, state FROM \(tables.table(collection)) WHERE live ORDER BY id")
        for row in 0..<rows.count {
            let goesOn = try withExtendedLifetime(rows) {
                let document = try ProjectionError.reading { () throws(CRDTError) in
                    try DocumentReader(rows.raw(row, 2))
                }
                let id = DocumentID(trusted: rows.bytes(row, rows.isNull(row, 1) ? 0 : 1))
                return try visit(DocumentRecord(id: id, document: document))
            }
            guard goesOn else { return }
        }
    }

    func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        try scan(collection) { record in
            guard record.id == id else { return true }
            try visit(record)
            return false
        }
    }
}
