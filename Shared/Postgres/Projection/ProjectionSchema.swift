import OperationLog

/// The schema `mimeo_projection`: the catalog of all projections on a server, and the steps from version to
/// version (`VersionedSchema`).
///
/// The tables of a *generation* have a version of their own (`Generation.currentLayout`): a generation of
/// an older layout is not migrated but rebuilt beside it.
enum ProjectionSchema {
    /// The oldest version that is opened: 0.2.0's. The earlier one was never released (decision 0170).
    static let oldestVersion = 2
    /// The version this build writes.
    static var currentVersion: Int { oldestVersion + steps.count - 1 }
    static let steps = [version2]

    /// "MmPr".
    private static let lock = 1_299_009_650

    /// Readers use `databases.generation`; `building` is made beside it. Unsigned 64-bit numbers are stored
    /// by their bits. Names of collections are bytes, because PostgreSQL's texts cannot hold all of them;
    /// `title` is for people.
    ///
    /// Indexes: a column of keys each in its collection's table (`number` is that of the column). Documents
    /// before `filled` have their keys. `documents` counts a collection's live documents; NULL where the
    /// table is older than the count.
    ///
    /// A worker of another format would write rows that this one does not expect: it is refused.
    private static let version2 = """
        CREATE SCHEMA mimeo_projection;
        CREATE TABLE mimeo_projection.format (version int8 NOT NULL);
        CREATE TABLE mimeo_projection.generations (
            number int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            layout int8 NOT NULL,
            log_id bytea NOT NULL,
            "offset" int8 NOT NULL,
            hash int8 NOT NULL,
            clock int8 NOT NULL,
            reap_floor int8 NOT NULL,
            index_version int8 NOT NULL DEFAULT 0
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
            key_columns int4 NOT NULL DEFAULT 0,
            used_columns int4 NOT NULL DEFAULT 0,
            documents int8,
            UNIQUE (generation, name),
            UNIQUE (generation, view_name)
        );
        CREATE TABLE mimeo_projection.indexes (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            generation int4 NOT NULL,
            collection int8 NOT NULL,
            name bytea NOT NULL,
            keys bytea NOT NULL,
            column_number int4 NOT NULL,
            filled bytea NOT NULL DEFAULT '',
            is_filled boolean NOT NULL DEFAULT false,
            is_ready boolean NOT NULL DEFAULT false,
            is_exact boolean NOT NULL DEFAULT true,
            tells_values boolean NOT NULL DEFAULT true,
            UNIQUE (collection, name),
            UNIQUE (collection, column_number)
        );
        CREATE FUNCTION mimeo_projection.rebuild(database_id text) RETURNS boolean
        LANGUAGE sql AS $body$
            UPDATE mimeo_projection.databases SET rebuild = true WHERE id = database_id RETURNING true
        $body$;
        CREATE FUNCTION mimeo_projection.guard() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN
                IF current_setting('mimeo.projection_format', true) IS DISTINCT FROM '2' THEN
                    RAISE EXCEPTION 'a newer version of Mimeo keeps this projection';
                END IF;
                RETURN NEW;
            END
        $body$;
        CREATE TRIGGER guard BEFORE UPDATE ON mimeo_projection.generations
            FOR EACH ROW EXECUTE FUNCTION mimeo_projection.guard();
        """

    /// The setting of a session that may fold: see `version2`.
    static let writing = "SET mimeo.projection_format = '2'"

    /// Brings the schema to the current version, creating it if needed.
    /// - Throws: `PROJ-0102` to `PROJ-0104`, having changed nothing; `PostgresError`.
    static func migrate(_ connection: Connection) throws {
        guard connection.serverVersion >= PostgresLogSchema.oldestServer else {
            throw ProjectionError(
                .cannotOpen,
                "the server is PostgreSQL \(connection.serverVersion / 10_000); 15 is the oldest supported")
        }
        let encoding = try connection.query("SELECT current_setting('server_encoding')").text(0, 0)
        guard encoding == "UTF8" else {
            throw ProjectionError(
                .cannotOpen, "the PostgreSQL database has the encoding \(encoding); it must be UTF8")
        }
        try schema.migrate(connection)
    }

    private static var schema: VersionedSchema<ProjectionError> {
        VersionedSchema(
            name: "mimeo_projection", lock: lock, oldest: oldestVersion, steps: steps,
            foreign: { ProjectionError(.notAProjection, $0) },
            unsupported: { ProjectionError(.unsupportedFormat, $0) })
    }

    /// Refuses a schema of a format that this build does not know.
    /// - Throws: `PROJ-0103`, `PROJ-0104`; `PostgresError`.
    static func check(_ connection: Connection) throws { try schema.check(connection) }

    /// The stored format, which stays as it is; nil for a server without projections.
    static func storedFormat(_ connection: Connection) throws -> StoredFormat? {
        let stored = try schema.storedVersion(connection)
        guard stored > 0 else { return nil }
        return StoredFormat(stored: stored, oldest: oldestVersion, current: currentVersion)
    }
}
