/// The schema `mimeo_projection`: the catalog of all projections on a server, and the steps from version to
/// version.
///
/// A step runs in a transaction under an advisory lock, so that any number of processes may start at once.
/// Released steps are never changed. How the tables of a *generation* look has a version of its own
/// (`Generation.currentLayout`): a generation of an older layout is not migrated but built anew beside it.
enum ProjectionSchema {
    /// The format this build writes.
    static var currentVersion: Int64 { Int64(steps.count) }

    private static let steps = [version1]

    /// "MmPr": who else locks this number, means this schema.
    private static let lock = "SELECT pg_advisory_xact_lock(1299009650)"

    /// `databases.generation` is what readers use, `building` what is made beside it. Unsigned 64-bit numbers
    /// are stored by their bits. Names of collections are bytes, for PostgreSQL's texts cannot hold all of
    /// them; `title` is for people.
    private static let version1 = """
        CREATE SCHEMA mimeo_projection;
        CREATE TABLE mimeo_projection.format (version int8 NOT NULL);
        CREATE TABLE mimeo_projection.generations (
            number int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            layout int8 NOT NULL,
            log_id bytea NOT NULL,
            "offset" int8 NOT NULL,
            hash int8 NOT NULL,
            clock int8 NOT NULL,
            reap_floor int8 NOT NULL
        ) WITH (fillfactor = 50);
        CREATE TABLE mimeo_projection.databases (
            number int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            view_schema text COLLATE "C" NOT NULL UNIQUE,
            generation int4 NOT NULL REFERENCES mimeo_projection.generations,
            building int4 REFERENCES mimeo_projection.generations,
            rebuild boolean NOT NULL DEFAULT false
        ) WITH (fillfactor = 50);
        CREATE TABLE mimeo_projection.collections (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            generation int4 NOT NULL,
            name bytea NOT NULL,
            title text NOT NULL,
            view_name text COLLATE "C" NOT NULL,
            since int8 NOT NULL,
            UNIQUE (generation, name),
            UNIQUE (generation, view_name)
        );
        CREATE FUNCTION mimeo_projection.rebuild(database_id text) RETURNS boolean
        LANGUAGE sql AS $body$
            UPDATE mimeo_projection.databases SET rebuild = true WHERE id = database_id RETURNING true
        $body$;
        """

    /// Brings the schema to the current version, making it if need be.
    /// - Throws: `PROJ-0102` to `PROJ-0104`, having changed nothing; `PostgresError`.
    static func migrate(_ connection: Connection) throws {
        guard connection.serverVersion >= PostgresLogSchema.oldestServer else {
            throw ProjectionError(
                .cannotOpen,
                "the server is PostgreSQL \(connection.serverVersion / 10_000), 15 is the oldest supported")
        }
        let encoding = try connection.query("SELECT current_setting('server_encoding')").text(0, 0)
        guard encoding == "UTF8" else {
            throw ProjectionError(
                .cannotOpen, "the PostgreSQL database stores texts as \(encoding); UTF8 is needed")
        }
        // Most openings find everything as it should be, and need no lock.
        if try storedVersion(connection) == currentVersion { return }
        try connection.run("BEGIN")
        do {
            try connection.run(lock)
            let stored = try storedVersion(connection)
            guard stored <= currentVersion else {
                throw ProjectionError(
                    .newerFormat,
                    "the schema mimeo_projection has format \(stored), this build knows \(currentVersion)")
            }
            if stored < currentVersion {
                for step in steps.dropFirst(Int(stored)) { try connection.run(step) }
                try connection.run(
                    """
                    DELETE FROM mimeo_projection.format;
                    INSERT INTO mimeo_projection.format VALUES (\(currentVersion))
                    """)
            }
            try connection.run("COMMIT")
        } catch {
            try connection.run("ROLLBACK")
            throw error
        }
    }

    /// The version of the schema; 0 where there is none.
    private static func storedVersion(_ connection: Connection) throws -> Int64 {
        let tables = try connection.query(
            """
            SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'mimeo_projection'),
            to_regclass('mimeo_projection.format') IS NOT NULL
            """)
        guard tables.bool(0, 0) else { return 0 }
        guard tables.bool(0, 1) else {
            throw ProjectionError(.notAProjection, "the schema mimeo_projection is another application's")
        }
        let rows = try connection.query("SELECT version FROM mimeo_projection.format")
        guard rows.count == 1 else {
            throw ProjectionError(
                .notAProjection, "the table mimeo_projection.format has \(rows.count) rows")
        }
        return rows.int8(0, 0)
    }
}
