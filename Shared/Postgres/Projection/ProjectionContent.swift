import CRDT
import OperationLog

extension ProjectionSnapshot {
    /// A row of the projection: a document with its state, deleted ones included.
    public struct Row: Sendable {
        /// The document.
        public let key: DocumentKey
        /// True if readers see it.
        public let isLive: Bool
        /// Its encoded state.
        public let state: EncodedState
    }

    /// Visits all documents of a database's projection at one moment, for a comparison with the log. Memory
    /// does not grow with them.
    /// - Returns: the place in the log of that moment; nil when the server has no projection of the database.
    /// - Throws: `ProjectionError`, and the body's errors.
    public static func readAll(
        _ database: DatabaseID, url: String, _ body: (Row) throws -> Void
    ) throws -> LogPosition? {
        do {
            let connection = try Connection(url: url)
            let isThere = try connection.query(
                "SELECT to_regclass('mimeo_projection.databases') IS NOT NULL"
            ).bool(0, 0)
            guard isThere else { return nil }
            try ProjectionSchema.check(connection)
            let known = try connection.query(
                "SELECT EXISTS (SELECT 1 FROM mimeo_projection.databases WHERE id = $1)",
                [.text(database.text)])
            guard known.bool(0, 0) else { return nil }
            return try run(of: database, on: connection) { snapshot in
                for name in try snapshot.collectionNames() { try snapshot.readAll(name, body) }
                return try snapshot.position()
            }
        } catch let error as PostgresError {
            throw ProjectionError(
                error.isConnectionLost ? .unreachable : .storageFailed,
                "the projection cannot be read: \(error)")
        }
    }

    private func readAll(_ collection: CollectionName, _ body: (Row) throws -> Void) throws {
        guard let table = try table(collection) else { return }
        var last: [UInt8] = []
        while true {
            let rows = try query(
                """
                SELECT id, whole, live, state FROM (
                    SELECT id, whole, live, state,
                        sum(octet_length(state)) OVER (ORDER BY id) - octet_length(state) AS before
                    FROM (
                        SELECT id, whole, live, state FROM \(table) WHERE id > $1 ORDER BY id LIMIT $2
                    ) AS page
                ) AS measured WHERE before < $3 ORDER BY id
                """,
                [
                    .bytes(last), .int8(Int64(PostgresLimits.pageDocuments)),
                    .int8(Int64(PostgresLimits.pageBytes)),
                ])
            guard rows.count > 0 else { return }
            for row in 0..<rows.count {
                let id = DocumentID(trusted: rows.bytes(row, rows.isNull(row, 1) ? 0 : 1))
                try body(
                    Row(
                        key: DocumentKey(collection: collection, id: id), isLive: rows.bool(row, 2),
                        state: EncodedState(rows.bytes(row, 3))))
            }
            last = rows.bytes(rows.count - 1, 0)
        }
    }
}
