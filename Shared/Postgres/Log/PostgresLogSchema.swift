import OperationLog

/// The schema `mimeo_log`: the tables of the log, the functions that change them, and the steps from
/// version to version (`VersionedSchema`).
enum PostgresLogSchema {
    /// The oldest supported server.
    static let oldestServer = 150_000

    /// The oldest version that is opened: 0.2.0's. Earlier ones were never released (decision 0170).
    static let oldestVersion = 5
    /// The version this build writes.
    static var currentVersion: Int { oldestVersion + steps.count - 1 }

    /// The functions come with the last step, because only the newest format is ever used. So a change of a
    /// function needs a step.
    static let steps = [
        version5
            + [
                PostgresLogFunctions.flush, PostgresLogFunctions.append, PostgresLogFunctions.appendPlain,
                PostgresLogFunctions.truncate, PostgresLogFunctions.lease, PostgresLogFunctions.arrive,
            ].joined()
    ]

    /// "MmLg", the mark of all our logs.
    private static let lock = 1_299_007_591
    /// "MmLd": the lock of whoever restores databases into the log, or moves them.
    static let draftMaking = 1_299_007_588

    /// 64-bit unsigned numbers are stored by their bits. Each database's operations are a
    /// partition, so that one database's truncation or removal touches no other's.
    ///
    /// Plain appends leave their changes to `actors` and `touched` unflushed after `databases.settled`, in
    /// the operations' own rows: the content hash, the touches, and the author's key if the actor may be
    /// new. Rows through `databases.settled` need none of it. `touched` is complete after the offset
    /// `indexed`.
    ///
    /// Entries up to `databases.truncated` were removed, `truncated_hash` is the chain hash there. A row of
    /// `hashes` holds those of consecutive removed entries, from `first` on. A snapshot's `sum` is the
    /// checksum so far. `home` is the last place of the log: see `PostgresLogFunctions.arrive`.
    private static let version5 = """
        CREATE SCHEMA mimeo_log;
        CREATE TABLE mimeo_log.format (version int8 NOT NULL);
        CREATE TABLE mimeo_log.databases (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            log_id bytea NOT NULL,
            head int8 NOT NULL,
            hash int8 NOT NULL,
            truncated int8 NOT NULL DEFAULT 0,
            truncated_hash int8 NOT NULL DEFAULT 0,
            indexed int8 NOT NULL DEFAULT 0,
            settled int8 NOT NULL DEFAULT 0
        ) WITH (fillfactor = 50);
        CREATE TABLE mimeo_log.operations (
            database int8 NOT NULL,
            "offset" int8 NOT NULL,
            actor int8 NOT NULL,
            sequence int8 NOT NULL,
            "timestamp" int8 NOT NULL,
            hash int8 NOT NULL,
            bytes bytea NOT NULL,
            content int8 NOT NULL DEFAULT 0,
            key text COLLATE "C" NOT NULL DEFAULT '',
            touches int8[] NOT NULL DEFAULT '{}',
            PRIMARY KEY (database, "offset")
        ) PARTITION BY LIST (database);
        ALTER TABLE mimeo_log.operations ALTER COLUMN touches SET STORAGE EXTERNAL;
        CREATE TABLE mimeo_log.actors (
            database int8 NOT NULL,
            actor int8 NOT NULL,
            key text COLLATE "C" NOT NULL,
            sequence int8 NOT NULL,
            "timestamp" int8 NOT NULL,
            hash int8 NOT NULL,
            PRIMARY KEY (database, actor)
        ) WITH (fillfactor = 70);
        CREATE TABLE mimeo_log.touched (
            database int8 NOT NULL,
            touch int8 NOT NULL,
            "offset" int8 NOT NULL,
            PRIMARY KEY (database, touch)
        ) WITH (fillfactor = 80);
        CREATE TABLE mimeo_log.hashes (
            database int8 NOT NULL, first int8 NOT NULL, hashes int8[] NOT NULL,
            PRIMARY KEY (database, first)
        );
        CREATE TABLE mimeo_log.snapshots (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            database int8 NOT NULL,
            "offset" int8 NOT NULL,
            hash int8 NOT NULL,
            chunks int8 NOT NULL,
            bytes int8 NOT NULL,
            sum int8 NOT NULL,
            is_finished boolean NOT NULL
        );
        CREATE TABLE mimeo_log.chunks (
            snapshot int8 NOT NULL REFERENCES mimeo_log.snapshots ON DELETE CASCADE,
            number int8 NOT NULL, hash int8 NOT NULL, bytes bytea NOT NULL,
            PRIMARY KEY (snapshot, number)
        );
        ALTER TABLE mimeo_log.chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
        CREATE TABLE mimeo_log.leases (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            database int8 NOT NULL,
            purpose text COLLATE "C" NOT NULL,
            slot int8 NOT NULL,
            actor int8,
            epoch int8 NOT NULL,
            expires timestamptz NOT NULL,
            UNIQUE (database, purpose, slot)
        );
        CREATE TABLE mimeo_log.home (place text NOT NULL);
        CREATE FUNCTION mimeo_log.create_database(new_id text, new_log_id bytea, start int8) RETURNS boolean
        LANGUAGE plpgsql AS $body$
        DECLARE made int8;
        BEGIN
            INSERT INTO mimeo_log.databases (id, log_id, head, hash) VALUES (new_id, new_log_id, 0, start)
            ON CONFLICT (id) DO NOTHING RETURNING number INTO made;
            IF made IS NULL THEN RETURN false; END IF;
            -- Attaching, unlike creating as a partition, lets appends to other databases go on.
            EXECUTE format(
                'CREATE TABLE mimeo_log.operations_%s (LIKE mimeo_log.operations INCLUDING ALL)', made);
            EXECUTE format(
                'ALTER TABLE mimeo_log.operations '
                'ATTACH PARTITION mimeo_log.operations_%s FOR VALUES IN (%s)', made, made);
            RETURN true;
        END $body$;

        """

    /// Brings the schema to the current version, creating it if needed.
    /// - Throws: `LOG-0201` for a server that is too old, `LOG-0202` for another application's schema,
    ///   `LOG-0203` for an unsupported format, having changed nothing.
    static func migrate(_ connection: Connection) throws { try schema(at: connection).migrate(connection) }

    /// Returns whether there is nothing to migrate. Throws like `migrate` for errors that are already
    /// known.
    static func isNewest(_ connection: Connection) throws -> Bool {
        try schema(at: connection).isNewest(connection)
    }

    /// The stored format; nil for a server without a log.
    static func storedFormat(_ connection: Connection) throws -> StoredFormat? {
        let stored = try schema(at: connection).storedVersion(connection)
        guard stored > 0 else { return nil }
        return StoredFormat(stored: stored, oldest: oldestVersion, current: currentVersion)
    }

    private static func schema(at connection: Connection) throws -> VersionedSchema<OperationLogError> {
        guard connection.serverVersion >= oldestServer else {
            throw OperationLogError(
                .cannotOpen,
                "the server is PostgreSQL \(connection.serverVersion / 10_000); 15 is the oldest supported")
        }
        return VersionedSchema(
            name: "mimeo_log", lock: lock, oldest: oldestVersion, steps: steps,
            foreign: { OperationLogError(.notAnOperationLog, $0) },
            unsupported: { OperationLogError(.unsupportedFormat, $0) })
    }
}
