import CRDT
import Logging
import OperationLog

/// Removes generations: leftovers of builds and switches, and those of deleted databases.
struct GenerationRemoval {
    private let connection: Connection
    private let logger: Logger

    init(_ connection: Connection, _ logger: Logger) {
        self.connection = connection
        self.logger = logger
    }

    /// Removes a database's projection: views, generations and, at last, its row. A worker of another process
    /// that folds it fails from now on.
    ///
    /// The row names an empty generation meanwhile: so an erasure that was interrupted is found again.
    /// - Throws: `PROJ-0201` while somebody reads it.
    func erase(_ database: DatabaseID) throws {
        let key: [Parameter] = [.text(database.text)]
        try connection.run("BEGIN")
        let views: Rows
        do {
            let empty = try Generation.make(
                at: LogPosition(logID: .random(), offset: 0, hash: 0), connection)
            views = try connection.query(
                """
                UPDATE mimeo_projection.databases SET generation = $2::int4, building = NULL
                WHERE id = $1 RETURNING view_schema
                """, key + [.int8(Int64(empty))])
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
        for row in 0..<views.count {
            let schema = views.text(row, 0)
            while let some = try relations(.views, in: schema) { try connection.run("DROP VIEW \(some)") }
            try connection.run("DROP SCHEMA IF EXISTS \(ProjectionNames.quoted(schema)) CASCADE")
        }
        guard try cleanUp() else {
            throw ProjectionError(.notReady, "parts of the projection are still read")
        }
        _ = try connection.query("DELETE FROM mimeo_projection.databases WHERE id = $1", key)
        _ = try cleanUp()
    }

    /// Removes generations that no database names and nobody reads.
    /// - Returns: whether some are left because they are being read.
    func cleanUp() throws -> Bool {
        let leftovers = try connection.query(
            """
            SELECT g.number::int8 FROM mimeo_projection.generations g
            WHERE NOT EXISTS (SELECT 1 FROM mimeo_projection.databases d
                WHERE d.generation = g.number OR d.building = g.number)
            """)
        var isComplete = true
        for row in 0..<leftovers.count {
            let isRemoved = try remove(Int32(leftovers.int8(row, 0)))
            isComplete = isComplete && isRemoved
        }
        return isComplete
    }

    /// Removes one generation; false while somebody reads it, through us or through its views in SQL.
    private func remove(_ generation: Int32) throws -> Bool {
        let key: [Parameter] = [.int8(Int64(generation))]
        let lock = "(\(ProjectionLocks.generation), $1::int4)"
        guard try connection.query("SELECT pg_try_advisory_lock\(lock)", key).bool(0, 0) else { return false }
        let outcome = Swift.Result { try drop(generation) }
        if case .failure(let error as PostgresError) = outcome, error.isConnectionLost { throw error }
        _ = try connection.query("SELECT pg_advisory_unlock\(lock)", key)
        // Somebody holds a lock, or has based a view on ours: the removal waits for them, and nobody waits
        // for it.
        if case .failure(let error as PostgresError) = outcome {
            logger.debug("a generation cannot be removed yet", metadata: ["reason": "\(error)"])
            return false
        }
        try outcome.get()
        return true
    }

    private func drop(_ generation: Int32) throws {
        let schema = ProjectionNames.schema(generation)
        let views = ProjectionNames.hiddenViews(generation)
        // Views before tables, in the order in which readers lock them; in portions, because 10,000 locks
        // are too many.
        while let some = try relations(.views, in: views) { try connection.run("DROP VIEW \(some)") }
        while let some = try relations(.tables, in: schema) {
            try connection.run("DROP TABLE \(some) CASCADE")
        }
        try connection.run("DROP SCHEMA IF EXISTS \(schema) CASCADE; DROP SCHEMA IF EXISTS \(views) CASCADE")
        let key: [Parameter] = [.int8(Int64(generation))]
        _ = try connection.query(
            "DELETE FROM mimeo_projection.collections WHERE generation = $1::int4", key)
        _ = try connection.query("DELETE FROM mimeo_projection.indexes WHERE generation = $1::int4", key)
        _ = try connection.query("DELETE FROM mimeo_projection.generations WHERE number = $1::int4", key)
    }

    /// The kinds of relations to drop, as named by `pg_class.relkind`.
    private enum RelationKind: String {
        case tables = "r"
        case views = "v"
    }

    /// Some of a schema's tables or views, as a list; nil when there is none.
    private func relations(_ kind: RelationKind, in schema: String) throws -> String? {
        let rows = try connection.query(
            """
            SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relkind = '\(kind.rawValue)' LIMIT \(PostgresLimits.tablesAtOnce)
            """, [.text(schema)])
        guard rows.count > 0 else { return nil }
        return (0..<rows.count).map { rows.text($0, 0) }.joined(separator: ", ")
    }
}
