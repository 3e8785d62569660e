import CRDT

/// Tells which tables of a generation need new statistics: those in which much was written since the last
/// ones, and those whose statistics are of another table, or missing, when a worker begins to lead.
///
/// PostgreSQL plans by them. Autovacuum takes them too, a minute later and if it is on.
struct TableStatistics {
    private struct Table {
        /// Rows written since the statistics were taken.
        var written = 0
        /// Live documents, about.
        var documents = 0
    }

    private var tables: [CollectionName: Table] = [:]
    private let least: Int

    /// Reads what the server knows. A table that by its statistics has a small part of its documents counts
    /// as written as a whole.
    /// - Parameter surveyedDocuments: see `PostgresLimits`.
    init(of generation: Int32, surveyedDocuments: Int, _ connection: Connection) throws {
        least = surveyedDocuments
        try read(of: generation, connection)
    }

    /// Reads it again: other connections write too.
    mutating func read(of generation: Int32, _ connection: Connection) throws {
        let rows = try connection.query(
            """
            SELECT c.name, coalesce(c.documents, 0)::int8, greatest(
                CASE WHEN t.reltuples * \(PostgresLimits.surveyedPart) < c.documents THEN c.documents END,
                pg_stat_get_mod_since_analyze(t.oid), 0)::int8
            FROM mimeo_projection.collections c
            JOIN pg_class t ON t.oid = to_regclass('\(ProjectionNames.schema(generation)).c' || c.number)
            WHERE c.generation = $1::int4
            """, [.int8(Int64(generation))])
        for row in 0..<rows.count {
            let name = CollectionName(String(decoding: rows.bytes(row, 0), as: UTF8.self))
            tables[name] = Table(written: Int(rows.int8(row, 2)), documents: Int(rows.int8(row, 1)))
        }
    }

    /// The collections whose tables have old statistics.
    var old: [CollectionName] { tables.filter { isOld($0.value) }.map(\.key) }

    private func isOld(_ table: Table) -> Bool {
        table.written >= bound(of: table)
    }

    private func bound(of table: Table) -> Int {
        max(least, table.documents / PostgresLimits.surveyedPart)
    }

    /// Notes what a batch has written, and how many documents there are more.
    mutating func note(_ written: [CollectionName: Int], grown: [CollectionName: Int]) {
        for (collection, rows) in written { tables[collection, default: Table()].written += rows }
        for (collection, more) in grown { tables[collection, default: Table()].documents += more }
    }

    /// Notes that new statistics are taken.
    mutating func take(_ collection: CollectionName) { tables[collection]?.written = 0 }

    /// Notes that they were not taken after all.
    mutating func takeBack(_ collection: CollectionName) {
        guard var table = tables[collection] else { return }
        table.written += bound(of: table)
        tables[collection] = table
    }
}
