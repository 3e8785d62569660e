import CRDT
import GRDB
import Logging

@testable import Replica

/// The contents of a projection as text, so that two of them can be compared byte for byte. What belongs to
/// the folder and not to the log is left out: the file's place, the numbers and the version of indexes.
enum FoldedTables {
    /// The rows of each table of a folder that no service has open.
    static func inFolder(_ folder: String) throws -> [String: [String]] {
        let replica = try Materialization(
            directory: folder, environment: .system, logger: Logger(label: "test"))
        defer { try? replica.close() }
        return try replica.read { transaction in
            try transaction.withDatabase { database in
                let names = try String.fetchAll(
                    database, sql: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                var tables: [String: [String]] = [:]
                for name in names {
                    guard let columns = try columns(of: name, database) else { continue }
                    let text = columns.map { "quote(\($0))" }.joined(separator: " || ' ' || ")
                    tables[try title(of: name, database)] = try String.fetchAll(
                        database, sql: "SELECT \(text) AS row FROM \(name) ORDER BY row")
                }
                return tables
            }
        }
    }

    /// The columns to compare; nil for a table that says nothing of the log.
    private static func columns(of table: String, _ database: Database) throws -> [String]? {
        switch table {
        case "store": return ["clock", "head", "log", "log_hash", "reap_floor"]
        case "document_index": return ["collection", "name", "keys"]
        case "index_version", "setting", "feed": return nil
        case _ where table.hasPrefix("sqlite_"): return nil
        default:
            return try String.fetchAll(
                database, sql: "SELECT name FROM pragma_table_info(?) ORDER BY cid", arguments: [table])
        }
    }

    /// The name of a table; that of an index has the index's name and not its number.
    private static func title(of table: String, _ database: Database) throws -> String {
        guard let number = Int64(table.dropFirst("index_".count)), table.hasPrefix("index_") else {
            return table
        }
        let name = try String.fetchOne(
            database, sql: "SELECT collection || ' ' || name FROM document_index WHERE number = ?",
            arguments: [number])
        return "index \(name ?? table)"
    }

    /// The rows of each table of the projection in a PostgreSQL database that readers use.
    static func inPostgres(_ url: String) throws -> [String: [String]] {
        let current = "(SELECT generation FROM mimeo_projection.databases WHERE id = 'cars')"
        var tables = [
            "generation": [
                try PostgresDatabase.sql(
                    """
                    SELECT concat_ws(' ', layout, log_id, "offset", hash, clock, reap_floor)
                    FROM mimeo_projection.generations WHERE number = \(current)
                    """, at: url)
            ],
            "collections": [
                try PostgresDatabase.sql(
                    """
                    SELECT string_agg(concat_ws(' ', name, since, documents), ', ' ORDER BY name)
                    FROM mimeo_projection.collections WHERE generation = \(current)
                    """, at: url)
            ],
        ]
        let found = try PostgresDatabase.sql(
            """
            SELECT string_agg(generation || '.' || number || '.' || encode(name, 'hex'), ' ')
            FROM mimeo_projection.collections WHERE generation = \(current)
            """, at: url)
        for part in found.split(separator: " ").map({ $0.split(separator: ".") }) {
            tables["documents of \(part[2])"] = [
                try PostgresDatabase.sql(
                    """
                    SELECT coalesce(string_agg(to_jsonb(t)::text, E'\\n' ORDER BY id), '')
                    FROM mimeo_g\(part[0]).c\(part[1]) t
                    """, at: url)
            ]
        }
        return tables
    }
}
