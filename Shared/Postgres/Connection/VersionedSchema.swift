/// A schema of ours on a server, in numbered formats, and the steps from each to the next.
///
/// The number is the row of the table `format`. Steps run in one transaction under an advisory lock, so any
/// number of processes may start at once. Released steps never change.
struct VersionedSchema<Failure: Error> {
    /// The name; needs no quoting.
    let name: String
    /// The key of its advisory lock, which no other schema may use.
    let lock: Int
    /// The oldest format that this build knows.
    let oldest: Int
    /// The step that makes the oldest format, and one to each later format.
    let steps: [String]
    /// Makes the error for a schema of this name that another application owns.
    let foreign: (_ message: String) -> Failure
    /// Makes the error for a format that this build does not know.
    let unsupported: (_ message: String) -> Failure

    /// The newest format.
    private var newest: Int { oldest + steps.count - 1 }

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
            try check(stored)
            if stored < newest {
                let done = stored == 0 ? 0 : stored - oldest + 1
                for step in steps.dropFirst(done) { try connection.run(step) }
                try connection.run(
                    "DELETE FROM \(name).format; INSERT INTO \(name).format VALUES (\(newest))")
            }
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    /// Returns whether the schema is current.
    func isNewest(_ connection: Connection) throws -> Bool {
        try storedVersion(connection) == newest
    }

    /// Refuses a format that this build does not know.
    func check(_ connection: Connection) throws { try check(try storedVersion(connection)) }

    private func check(_ stored: Int) throws {
        guard stored <= newest else {
            throw unsupported("the schema \(name) has format \(stored); this build knows \(newest)")
        }
        guard stored == 0 || stored >= oldest else {
            throw unsupported(
                "the schema \(name) has format \(stored), which no release wrote; open it once with a "
                    + "version before 0.2.0 that writes format \(oldest)")
        }
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
