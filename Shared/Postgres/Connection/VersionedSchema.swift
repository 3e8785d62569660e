/// A schema of ours on a server, in numbered formats, and the steps from each to the next.
///
/// The number is the row of the table `format`. Steps run in one transaction under an advisory lock, so any
/// number of processes may start at once. Released steps never change.
struct VersionedSchema<Failure: Error> {
    /// The name; needs no quoting.
    let name: String
    /// The key of its advisory lock, which no other schema may use.
    let lock: Int
    /// The step to format 1, to format 2, and so on.
    let steps: [String]
    /// Makes the error for a schema of this name that another application owns.
    let foreign: (_ message: String) -> Failure
    /// Makes the error for a format written by a newer build.
    let newer: (_ message: String) -> Failure

    /// Brings the schema to the newest format, creating it if needed.
    /// - Throws: `Failure`, having changed nothing; `PostgresError`.
    func migrate(_ connection: Connection) throws {
        // Mostly the schema is current, and no lock is needed.
        if try isNewest(connection) { return }
        try connection.run("BEGIN")
        do {
            // The first process may have much to migrate.
            try connection.run("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(\(lock))")
            let stored = try storedVersion(connection)
            guard stored <= steps.count else {
                throw newer("the schema \(name) has format \(stored); this build knows \(steps.count)")
            }
            if stored < steps.count {
                for step in steps.dropFirst(stored) { try connection.run(step) }
                try connection.run(
                    "DELETE FROM \(name).format; INSERT INTO \(name).format VALUES (\(steps.count))")
            }
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    /// Returns whether the schema is current.
    func isNewest(_ connection: Connection) throws -> Bool {
        try storedVersion(connection) == steps.count
    }

    /// The format of the schema; 0 if it does not exist.
    func storedVersion(_ connection: Connection) throws -> Int {
        let tables = try connection.query(
            """
            SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '\(name)'),
            to_regclass('\(name).format') IS NOT NULL
            """)
        guard tables.bool(0, 0) else { return 0 }
        guard tables.bool(0, 1) else { throw foreign("the schema \(name) belongs to another application") }
        let rows = try connection.query("SELECT version FROM \(name).format")
        guard rows.count == 1, rows.int8(0, 0) > 0 else {
            throw foreign("the table \(name).format must have one row, not \(rows.count)")
        }
        return Int(rows.int8(0, 0))
    }
}
