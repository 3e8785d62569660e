/// A schema of ours on a server, in numbered formats, and the steps from each to the next.
///
/// The number is the row of the table `format`. Steps run in one transaction under an advisory lock, so that
/// any number of processes may start at once. Released steps are never changed.
struct VersionedSchema<Failure: Error> {
    /// The name; needs no quotes.
    let name: String
    /// The number of its advisory lock: who else locks that, means this schema.
    let lock: Int
    /// The step to format 1, to format 2, and so on.
    let steps: [String]
    /// What to throw for a schema of this name that is another application's.
    let foreign: (_ message: String) -> Failure
    /// What to throw for a format that a newer build has written.
    let newer: (_ message: String) -> Failure

    /// Brings the schema to the newest format, making it if need be.
    /// - Throws: `Failure`, having changed nothing; `PostgresError`.
    func migrate(_ connection: Connection) throws {
        // Most openings find everything as it should be, and need no lock.
        if try isNewest(connection) { return }
        try connection.run("BEGIN")
        do {
            // Who is first may have much to move.
            try connection.run("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(\(lock))")
            let stored = try storedVersion(connection)
            guard stored <= steps.count else {
                throw newer("the schema \(name) has format \(stored), this build knows \(steps.count)")
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

    /// Whether there is nothing to do.
    func isNewest(_ connection: Connection) throws -> Bool {
        try storedVersion(connection) == steps.count
    }

    /// The format of the schema; 0 where there is none.
    private func storedVersion(_ connection: Connection) throws -> Int {
        let tables = try connection.query(
            """
            SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '\(name)'),
            to_regclass('\(name).format') IS NOT NULL
            """)
        guard tables.bool(0, 0) else { return 0 }
        guard tables.bool(0, 1) else { throw foreign("the schema \(name) is another application's") }
        let rows = try connection.query("SELECT version FROM \(name).format")
        guard rows.count == 1, rows.int8(0, 0) > 0 else {
            throw foreign("the table \(name).format is not as ours: it has \(rows.count) rows")
        }
        return Int(rows.int8(0, 0))
    }
}
