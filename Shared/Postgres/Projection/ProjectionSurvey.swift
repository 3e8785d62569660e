import CRDT
import DQL
import OperationLog

extension ProjectionSnapshot {
    /// An index of a collection's table, as PostgreSQL describes it.
    public struct TableIndex: Sendable {
        /// Its name in PostgreSQL.
        public let name: String
        /// The statement that makes it.
        public let definition: String
        /// True for the one over the ids.
        public let isPrimary: Bool
        /// Its size on disk.
        public let bytes: Int
    }

    /// The live documents of a collection, and the bytes of their ids and encodings. Reads each row's head.
    public func size(of collection: CollectionName) throws -> (documents: Int, bytes: Int) {
        guard let table = try table(collection) else { return (0, 0) }
        return try surveying {
            let rows = try query(
                """
                SELECT count(*),
                    coalesce(sum(octet_length(coalesce(whole, id)) + octet_length(state)), 0)::int8
                FROM \(table) WHERE live
                """)
            return (Int(rows.int8(0, 0)), Int(rows.int8(0, 1)))
        }
    }

    /// Visits up to `count` live documents out of blocks that PostgreSQL chooses at random, the same ones
    /// each time.
    public func sample(
        _ collection: CollectionName, _ count: Int, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        guard count > 0, let table = try table(collection) else { return }
        let rows = try surveying {
            // -1 for a table that nobody has counted yet.
            let estimate = try query(
                "SELECT reltuples::int8 FROM pg_class WHERE oid = $1::regclass", [.text(table)])
            let known = estimate.count == 1 ? max(0, Int(estimate.int8(0, 0))) : 0
            // Blocks are as full as they are: some more, so that there are enough.
            let percent = known <= 2 * count ? 100 : max(1, 200 * count / known)
            return try query(
                """
                SELECT id, whole, state FROM (
                    SELECT id, whole, state,
                        sum(octet_length(state)) OVER (ORDER BY id) - octet_length(state) AS before
                    FROM (
                        SELECT id, whole, state FROM \(table)
                        TABLESAMPLE SYSTEM (\(percent)) REPEATABLE (1) WHERE live LIMIT $1
                    ) AS documents
                ) AS measured WHERE before < $2
                """, [.int8(Int64(count)), .int8(Int64(PostgresLimits.sampleBytes))])
        }
        for row in 0..<rows.count {
            let id = rows.bytes(row, rows.isNull(row, 1) ? 0 : 1)
            let document = try ProjectionError.reading { () throws(CRDTError) in
                try DocumentReader(rows.raw(row, 2))
            }
            try withExtendedLifetime(rows) {
                try visit(DocumentRecord(id: DocumentID(trusted: id), document: document))
            }
        }
    }

    /// The indexes of a collection's table, those of an operator included. The one of rough documents is left
    /// out: every table has it, and it is of no query's fields. So are those of key columns.
    public func tableIndexes(of collection: CollectionName) throws -> [TableIndex] {
        guard let table = try table(collection) else { return [] }
        let rows = try query(
            """
            SELECT c.relname::text, pg_get_indexdef(i.indexrelid), i.indisprimary,
                pg_relation_size(i.indexrelid)
            FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE i.indrelid = $1::regclass
                AND coalesce(pg_get_expr(i.indpred, i.indrelid), '') <> '(live AND (rough IS NOT NULL))'
                AND c.relname !~ '^c[0-9]+_k[0-9]+$'
            ORDER BY c.relname
            """, [.text(table)])
        return (0..<rows.count).map { row in
            TableIndex(
                name: rows.text(row, 0), definition: rows.text(row, 1), isPrimary: rows.bool(row, 2),
                bytes: Int(rows.int8(row, 3)))
        }
    }

    /// Runs a query that reads a whole table, which others of this transaction may not plan to.
    private func surveying<Result>(_ body: () throws -> Result) throws -> Result {
        try begin()
        let seconds = PostgresLimits.surveySeconds
        try connection.run("SET LOCAL enable_seqscan = on; SET LOCAL statement_timeout = '\(seconds)s'")
        let result = try body()
        try connection.run("SET LOCAL enable_seqscan = off; SET LOCAL statement_timeout = 0")
        return result
    }
}

extension PostgresProjection {
    /// The state of a projection, for administrators.
    public struct Report: Sendable {
        /// The number of the generation that readers use, and how far it is.
        public let generation: Int
        /// Its position in the log.
        public let offset: Offset
        /// True if this process folds; else another one does.
        public let isLeading: Bool
        /// The offset that a generation being built has reached; nil while none is.
        public let building: Offset?
        /// True from a request for a rebuild until it begins.
        public let isRebuildWanted: Bool
    }

    /// The present state, as the server has it.
    /// - Throws: `PROJ-0101` and others of the server; `PROJ-0201` before the projection was started.
    public func report() async throws -> Report {
        let isLeading = await worker.isLeading
        let database = database
        do {
            return try await lanes.run { connection in
                let rows = try connection.query(
                    """
                    SELECT d.rebuild, \(Generation.columns(of: "g")), \(Generation.columns(of: "b"))
                    FROM mimeo_projection.databases d
                    JOIN mimeo_projection.generations g ON g.number = d.generation
                    LEFT JOIN mimeo_projection.generations b ON b.number = d.building WHERE d.id = $1
                    """, [.text(database.text)])
                guard rows.count == 1, let current = try Generation(rows, 0, column: 1) else {
                    throw ProjectionError(.notReady, "the projection has not been started; try again")
                }
                return Report(
                    generation: Int(current.number), offset: current.position.offset, isLeading: isLeading,
                    building: try Generation(rows, 0, column: 1 + Generation.columnCount)?.position.offset,
                    isRebuildWanted: rows.bool(0, 0))
            }
        } catch {
            throw ProjectionError.translated(error)
        }
    }

    /// Asks the process that folds to build the projection again beside this one; readers go on with this
    /// one meanwhile. Does nothing while that is done already.
    public func rebuild() async throws {
        do {
            try await askForRebuild()
        } catch {
            throw ProjectionError.translated(error)
        }
    }
}
