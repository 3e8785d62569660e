import OperationLog

/// The schema `mimeo_log`: the tables of the log, the functions that change them, and the steps from
/// version to version.
///
/// A step runs in a transaction under an advisory lock, so that any number of processes may start at once.
/// Released steps are never changed.
enum PostgresLogSchema {
    /// The format this build writes.
    static var currentVersion: Int64 { Int64(steps.count) }

    /// The oldest server that is supported.
    static let oldestServer = 150_000

    private static let steps = [version1 + appendFunction]

    /// "MmLg", as everywhere: who else locks this number, means this schema.
    private static let lock = "SELECT pg_advisory_xact_lock(1299007591)"

    /// 64-bit unsigned numbers are stored by their bits. Each database's operations are a partition, so that
    /// one database's truncation or removal touches no other's.
    private static let version1 = """
        CREATE SCHEMA mimeo_log;
        CREATE TABLE mimeo_log.format (version int8 NOT NULL);
        CREATE TABLE mimeo_log.databases (
            number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            log_id bytea NOT NULL,
            head int8 NOT NULL,
            hash int8 NOT NULL
        ) WITH (fillfactor = 50);
        CREATE TABLE mimeo_log.operations (
            database int8 NOT NULL,
            "offset" int8 NOT NULL,
            actor int8 NOT NULL,
            sequence int8 NOT NULL,
            "timestamp" int8 NOT NULL,
            hash int8 NOT NULL,
            bytes bytea NOT NULL,
            PRIMARY KEY (database, "offset")
        ) PARTITION BY LIST (database);
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

    /// Appends one database's part of a group: decides every operation's outcome and writes what is appended,
    /// all in one statement, so that the lock on the database's row never waits for a client.
    ///
    /// The arguments are parallel arrays, an element per operation; operations of one `call` stand together.
    /// `touches` and `reads` hold those of all operations one after the other; operation i has the ones after
    /// `touch_ends[i - 1]` and up to `touch_ends[i]`. `read_ats` is -1 where there is no condition.
    /// Answers a row per operation: what became of it (see `PostgresLogWriter.Verdict`) and a number; or one
    /// row that speaks of the whole database.
    private static let appendFunction = """
        CREATE FUNCTION mimeo_log.append(
            database_id text, calls int8[], actors int8[], sequences int8[], stamps int8[], contents int8[],
            digests int8[], keys text[], bodies bytea[], touches int8[], touch_ends int8[], reads int8[],
            read_ends int8[], read_ats int8[]
        ) RETURNS TABLE (verdict int8, value int8)
        LANGUAGE plpgsql AS $body$
        DECLARE
            home mimeo_log.databases%ROWTYPE;
            call int8 := -1;
            held int8[] := '{}';
            who mimeo_log.actors%ROWTYPE;
            is_known boolean := false;
            is_changed boolean := false;
            new_places int8[] := '{}';
            new_hashes int8[] := '{}';
            new_indexes int8[] := '{}';
            latest int8;
            pending_touches int8[] := '{}';
            pending_places int8[] := '{}';
            touch_start int8 := 1;
            read_start int8 := 1;
            breach int8;
        BEGIN
            SELECT * INTO home FROM mimeo_log.databases d WHERE d.id = database_id FOR UPDATE;
            IF NOT FOUND THEN
                verdict := -1; value := 0; RETURN NEXT; RETURN;
            END IF;
            IF home.head > 0 THEN
                SELECT o.hash INTO latest FROM mimeo_log.operations o
                WHERE o.database = home.number AND o."offset" = home.head;
                IF latest IS DISTINCT FROM home.hash THEN
                    verdict := -2; value := home.head; RETURN NEXT; RETURN;
                END IF;
            END IF;
            FOR i IN 1 .. array_length(calls, 1) LOOP
                IF calls[i] <> call THEN
                    call := calls[i]; held := '{}';
                END IF;
                IF who.actor IS DISTINCT FROM actors[i] THEN
                    IF is_changed THEN
                        INSERT INTO mimeo_log.actors VALUES (who.*)
                        ON CONFLICT (database, actor) DO UPDATE SET sequence = excluded.sequence,
                            "timestamp" = excluded."timestamp", hash = excluded.hash;
                    END IF;
                    SELECT * INTO who FROM mimeo_log.actors a
                    WHERE a.database = home.number AND a.actor = actors[i];
                    is_known := FOUND;
                    is_changed := false;
                    IF NOT is_known THEN
                        who.database := home.number; who.actor := actors[i]; who.sequence := 0;
                    END IF;
                END IF;
                breach := NULL;
                IF read_ats[i] >= 0 AND read_ats[i] < home.head THEN
                    -- What this group has touched so far counts too.
                    INSERT INTO mimeo_log.touched
                    SELECT home.number, p.touch, max(p.place)
                    FROM unnest(pending_touches, pending_places) AS p (touch, place) GROUP BY p.touch
                    ON CONFLICT (database, touch) DO UPDATE SET "offset" = excluded."offset";
                    pending_touches := '{}'; pending_places := '{}';
                    SELECT max(t."offset") INTO breach FROM mimeo_log.touched t
                    WHERE t.database = home.number AND t.touch = ANY (reads[read_start : read_ends[i]])
                        AND t."offset" > read_ats[i];
                END IF;
                IF actors[i] = ANY (held) THEN
                    verdict := 2; value := who.sequence + 1;
                ELSIF is_known AND who.key <> keys[i] THEN
                    verdict := 3; value := 0;
                ELSIF sequences[i] > who.sequence + 1 THEN
                    verdict := 2; value := who.sequence + 1;
                ELSIF is_known AND sequences[i] = who.sequence AND who.hash <> contents[i] THEN
                    verdict := 4; value := sequences[i];
                ELSIF is_known AND sequences[i] <= who.sequence THEN
                    verdict := 1; value := who.sequence;
                ELSIF breach IS NOT NULL THEN
                    verdict := 5; value := breach;
                ELSE
                    home.head := home.head + 1;
                    IF touch_ends[i] >= touch_start THEN
                        pending_touches := pending_touches || touches[touch_start : touch_ends[i]];
                        pending_places := pending_places
                            || array_fill(home.head, ARRAY[(touch_ends[i] - touch_start + 1)::int]);
                    END IF;
                    home.hash := ((home.hash << 29) | ((home.hash >> 35) & 536870911)) # digests[i];
                    new_places := new_places || home.head;
                    new_hashes := new_hashes || home.hash;
                    new_indexes := new_indexes || i::int8;
                    IF NOT is_known THEN
                        who.key := keys[i];
                    END IF;
                    who.sequence := sequences[i]; who."timestamp" := stamps[i]; who.hash := contents[i];
                    is_known := true;
                    is_changed := true;
                    verdict := 0; value := home.head;
                END IF;
                IF verdict > 1 THEN
                    held := held || actors[i];
                END IF;
                touch_start := touch_ends[i] + 1;
                read_start := read_ends[i] + 1;
                RETURN NEXT;
            END LOOP;
            IF array_length(pending_touches, 1) > 0 THEN
                INSERT INTO mimeo_log.touched
                SELECT home.number, p.touch, max(p.place)
                FROM unnest(pending_touches, pending_places) AS p (touch, place) GROUP BY p.touch
                ON CONFLICT (database, touch) DO UPDATE SET "offset" = excluded."offset";
            END IF;
            IF is_changed THEN
                INSERT INTO mimeo_log.actors VALUES (who.*)
                ON CONFLICT (database, actor) DO UPDATE SET sequence = excluded.sequence,
                    "timestamp" = excluded."timestamp", hash = excluded.hash;
            END IF;
            IF array_length(new_places, 1) > 0 THEN
                INSERT INTO mimeo_log.operations
                SELECT home.number, n.place, actors[n.i], sequences[n.i], stamps[n.i], n.hash, bodies[n.i]
                FROM unnest(new_places, new_hashes, new_indexes) AS n (place, hash, i);
                UPDATE mimeo_log.databases d SET head = home.head, hash = home.hash
                WHERE d.number = home.number;
            END IF;
        END $body$;
        """

    /// Brings the schema to the current version, making it if need be.
    /// - Throws: `LOG-0201` for a server that is too old, `LOG-0203` for a schema of a newer build.
    static func migrate(_ connection: Connection) throws {
        guard connection.serverVersion >= oldestServer else {
            throw OperationLogError(
                .cannotOpen,
                "the server is PostgreSQL \(connection.serverVersion / 10_000), 15 is the oldest supported")
        }
        try connection.run("BEGIN")
        do {
            try connection.run(lock)
            let stored = try storedVersion(connection)
            guard stored <= currentVersion else {
                throw OperationLogError(
                    .newerFormat,
                    "the schema mimeo_log has format \(stored), this build knows \(currentVersion)")
            }
            if stored < currentVersion {
                for step in steps.dropFirst(Int(stored)) { try connection.run(step) }
                try connection.run(
                    "DELETE FROM mimeo_log.format; INSERT INTO mimeo_log.format VALUES (\(currentVersion))")
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
            SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'mimeo_log'),
            to_regclass('mimeo_log.format') IS NOT NULL
            """)
        guard tables.bool(0, 0) else { return 0 }
        guard tables.bool(0, 1) else {
            throw OperationLogError(.notAnOperationLog, "the schema mimeo_log is another application's")
        }
        let rows = try connection.query("SELECT version FROM mimeo_log.format")
        guard rows.count == 1 else {
            throw OperationLogError(.corrupt, "the table mimeo_log.format has \(rows.count) rows")
        }
        return rows.int8(0, 0)
    }
}
