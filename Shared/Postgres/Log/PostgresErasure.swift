import CRDT
import OperationLog

// The removal of whole databases from the PostgreSQL log.
//
// `erasing:N` in the column `id`, which no database can be called, says that rows of database N are left.

extension PostgresOperationLog {
    /// The server's storage is the one that answers.
    public func requireStorage() async throws {}

    /// Fills a temporary table of `PostgresLimits.triedBytes`, and undoes that.
    public func requireRoom() async throws {
        try await changing { connection in
            try connection.run("BEGIN")
            do {
                try connection.run(
                    """
                    CREATE TEMPORARY TABLE tried (bytes bytea) ON COMMIT DROP;
                    ALTER TABLE tried ALTER COLUMN bytes SET STORAGE EXTERNAL;
                    INSERT INTO tried SELECT decode(repeat('00', \(PostgresLimits.triedBytes)), 'hex')
                    """)
                try connection.run("ROLLBACK")
            } catch {
                try connection.undo(after: error)
                throw error
            }
        }
    }

    /// Figures of the server, for metrics. Figures that the role may not read are missing.
    public func figures() async throws -> PostgresFigures {
        try await reading { connection in
            let rows = try connection.query(
                """
                SELECT pg_database_size(current_database()), pg_has_role('pg_monitor', 'MEMBER'),
                    pg_is_in_recovery()
                """)
            var figures = PostgresFigures(
                databaseBytes: rows.int8(0, 0), timeline: connection.place?.timeline)
            guard rows.bool(0, 1), !rows.bool(0, 2) else { return figures }
            let more = try connection.query(
                """
                SELECT (SELECT coalesce(sum(size), 0)::int8 FROM pg_ls_waldir()),
                    (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'),
                    (SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0)::int8
                     FROM pg_stat_replication)
                """)
            figures.writeAheadBytes = more.int8(0, 0)
            figures.standbys = more.int8(0, 1)
            figures.standbyLagBytes = more.int8(0, 2)
            return figures
        }
    }

    /// Takes the database's name away, drops the partition of its entries, and deletes its other rows.
    /// PostgreSQL overwrites deleted rows when their space is used again; the partition's file is removed.
    @discardableResult
    public func eraseDatabase(_ database: DatabaseID) async throws -> Offset? {
        var last: Offset?
        if database.isValidInLog {
            last = try await changing { try Self.takeName($0, database) }
        }
        try await removeErased()
        return last
    }

    /// Removes the rows of all databases that have lost their names.
    func removeErased() async throws {
        for number in try await reading({ try Self.unfinished($0) }) {
            try await keepingUp { try Self.remove(number, $0) }
        }
    }

    /// Nothing: `truncate` ends with a VACUUM.
    public func scrub() async throws {}

    /// Writers that know the head by the database's number look for another head from now on, and find none.
    private static func takeName(_ connection: Connection, _ database: DatabaseID) throws -> Offset? {
        let rows = try connection.run([nameTaking(database)])[0]
        return rows.count == 1 ? Offset(rows.bits(0, 0)) : nil
    }

    /// The statement that takes a database's name.
    static func nameTaking(_ database: DatabaseID) -> Connection.Step {
        Connection.Step(
            """
            WITH known AS (SELECT number, head FROM mimeo_log.databases WHERE id = $1 FOR UPDATE)
            UPDATE mimeo_log.databases d SET id = 'erasing:' || d.number, head = -1, hash = 0,
                truncated_hash = 0, log_id = decode(repeat('00', 16), 'hex')
            FROM known WHERE d.number = known.number RETURNING known.head
            """, [.text(database.text)])
    }

    private static func unfinished(_ connection: Connection) throws -> [Int64] {
        let rows = try connection.query(
            "SELECT number FROM mimeo_log.databases WHERE id LIKE 'erasing:%' ORDER BY number")
        return (0..<rows.count).map { rows.int8($0, 0) }
    }

    /// Another process may be doing the same, so each statement bears that its rows are gone.
    private static func remove(_ number: Int64, _ connection: Connection) throws {
        // The partition is detached under the lock of the whole table, before any other lock: an append takes
        // the table's lock and then a row's.
        _ = try connection.transaction([
            Connection.Step("LOCK TABLE mimeo_log.operations IN ACCESS EXCLUSIVE MODE"),
            Connection.Step("DROP TABLE IF EXISTS mimeo_log.operations_\(number)"),
        ])
        for table in ["actors", "touched", "hashes", "leases", "snapshots"] {
            _ = try connection.query("DELETE FROM mimeo_log.\(table) WHERE database = $1", [.int8(number)])
        }
        _ = try connection.query("DELETE FROM mimeo_log.databases WHERE number = $1", [.int8(number)])
        for table in ["actors", "touched", "hashes", "chunks"] {
            try connection.run("VACUUM mimeo_log.\(table)")
        }
    }
}
