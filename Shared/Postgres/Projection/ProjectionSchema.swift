import OperationLog

/// The schema `mimeo_projection`: the catalog of all projections on a server, and the steps from version to
/// version (`VersionedSchema`).
///
/// The tables of a *generation* have a version of their own (`Generation.currentLayout`): a generation of
/// an older layout is not migrated but rebuilt beside it.
enum ProjectionSchema {
    static let steps = [version1, version2]

    /// "MmPr".
    private static let lock = 1_299_009_650

    /// Readers use `databases.generation`; `building` is made beside it. Unsigned 64-bit numbers are stored
    /// by their bits. Names of collections are bytes, because PostgreSQL's texts cannot hold all of them;
    /// `title` is for people.
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

    /// Indexes: a column of keys each in its collection's table (`number` is that of the column). Documents
    /// before `filled` have their keys. `documents` counts a collection's live documents; NULL where the
    /// table is older than the count.
    ///
    /// A worker of an earlier version would write rows without keys and counts: it is refused.
    private static let version2 = """
        ALTER TABLE mimeo_projection.generations ADD COLUMN index_version int8 NOT NULL DEFAULT 0;
        ALTER TABLE mimeo_projection.collections
            ADD COLUMN key_columns int4 NOT NULL DEFAULT 0, ADD COLUMN used_columns int4 NOT NULL DEFAULT 0,
            ADD COLUMN documents int8;
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
            name: "mimeo_projection", lock: lock, steps: steps,
            foreign: { ProjectionError(.notAProjection, $0) },
            newer: { ProjectionError(.newerFormat, $0) })
    }

    /// The stored format, which stays as it is; nil for a server without projections.
    static func storedFormat(_ connection: Connection) throws -> StoredFormat? {
        let stored = try schema.storedVersion(connection)
        return stored > 0 ? StoredFormat(stored: stored, current: steps.count) : nil
    }
}
