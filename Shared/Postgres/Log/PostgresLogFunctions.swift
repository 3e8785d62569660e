/// The functions of the schema `mimeo_log` in the current version.
enum PostgresLogFunctions {
    /// Appends one database's part of a group: decides every operation's outcome and writes the appended
    /// ones, all in one statement, so that the lock on the database's row never waits for a client.
    ///
    /// The arguments are parallel arrays, an element per operation; operations of one `call` are adjacent.
    /// `touches` and `reads` hold those of all operations one after the other; operation i has the ones
    /// after `touch_ends[i - 1]` and up to `touch_ends[i]`. `read_ats` is -1 without a condition, and
    /// `lease_numbers` 0 without a lease. Returns a row per operation with its outcome (see
    /// `DecidedAppend.Verdict`) and a number, or one row about the whole database.
    static let append = """
        CREATE OR REPLACE FUNCTION mimeo_log.append(
            database_id text, calls int8[], actors int8[], sequences int8[], stamps int8[], contents int8[],
            digests int8[], keys text[], bodies bytea[], touches int8[], touch_ends int8[], reads int8[],
            read_ends int8[], read_ats int8[], lease_numbers int8[], lease_epochs int8[]
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
            IF home.head > home.truncated THEN
                SELECT o.hash INTO latest FROM mimeo_log.operations o
                WHERE o.database = home.number AND o."offset" = home.head;
                IF latest IS DISTINCT FROM home.hash THEN
                    verdict := -2; value := home.head; RETURN NEXT; RETURN;
                END IF;
            END IF;
            PERFORM mimeo_log.settle(home.number);
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
                IF read_ats[i] >= 0 AND read_ats[i] < home.indexed THEN
                    breach := home.indexed;
                ELSIF read_ats[i] >= 0 AND read_ats[i] < home.head THEN
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
                ELSIF lease_numbers[i] > 0 AND NOT EXISTS (
                    SELECT 1 FROM mimeo_log.leases l
                    WHERE l.number = lease_numbers[i] AND l.database = home.number
                        AND l.epoch = lease_epochs[i] AND l.actor = actors[i]
                        AND l.expires > clock_timestamp()
                ) THEN
                    verdict := 6; value := 0;
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
                    (database, "offset", actor, sequence, "timestamp", hash, bytes, content)
                SELECT home.number, n.place, actors[n.i], sequences[n.i], stamps[n.i], n.hash, bodies[n.i],
                    contents[n.i]
                FROM unnest(new_places, new_hashes, new_indexes) AS n (place, hash, i);
                UPDATE mimeo_log.databases d SET head = home.head, hash = home.hash, settled = home.head
                WHERE d.number = home.number;
            END IF;
        END $body$;

        """

    /// Brings the tables `actors` and `touched` up to the head, from the rows of plainly appended
    /// operations. Takes the lock of the database's row.
    static let flush = """
        CREATE OR REPLACE FUNCTION mimeo_log.settle(home int8) RETURNS void
        LANGUAGE plpgsql AS $body$
        DECLARE
            since int8;
            through int8;
        BEGIN
            SELECT d.settled, d.head INTO since, through
            FROM mimeo_log.databases d WHERE d.number = home FOR UPDATE;
            IF since = through THEN RETURN; END IF;
            WITH waiting AS (
                SELECT o."offset", o.actor, o.key, o.touches FROM mimeo_log.operations o
                WHERE o.database = home AND o."offset" > since AND o."offset" <= through
            ), lasts AS (
                SELECT w.actor, max(w.key) AS key, max(w."offset") AS place
                FROM waiting w GROUP BY w.actor
            ), standing AS (
                INSERT INTO mimeo_log.actors
                SELECT home, l.actor, l.key, o.sequence, o."timestamp", o.content
                FROM lasts l JOIN mimeo_log.operations o ON o.database = home AND o."offset" = l.place
                ON CONFLICT (database, actor) DO UPDATE SET sequence = excluded.sequence,
                    "timestamp" = excluded."timestamp", hash = excluded.hash
            )
            INSERT INTO mimeo_log.touched
            SELECT home, t.touch, max(t."offset")
            FROM (SELECT unnest(w.touches) AS touch, w."offset" FROM waiting w) AS t GROUP BY t.touch
            ON CONFLICT (database, touch) DO UPDATE SET "offset" = excluded."offset";
            UPDATE mimeo_log.databases d SET settled = through WHERE d.number = home;
        END $body$;

        """

    /// Appends one database's part of a group (`PlainAppend`) for a writer that does not know the head, all
    /// of it or nothing. Returns no row when an actor does not stand where its run begins or has another
    /// key, or when the database is missing or damaged. Otherwise returns the database's number, and the
    /// head and chain hash before.
    ///
    /// `who` to `last_contents` have an element per actor, `actors` to `bodies` one per operation; each of
    /// `touches` was touched last by the operation at its place. A chain hash is the one before the group,
    /// rotated left by 29 bits per operation, XOR its fold. Everything is flushed before and after.
    static let appendPlain = """
        CREATE OR REPLACE FUNCTION mimeo_log.append_plain(
            database_id text, who int8[], keys text[], firsts int8[], lasts int8[], last_stamps int8[],
            last_contents int8[], actors int8[], sequences int8[], stamps int8[], contents int8[],
            folds int8[], bodies bytea[], touches int8[], places int8[]
        ) RETURNS TABLE (home_number int8, head_before int8, hash_before int8)
        LANGUAGE plpgsql AS $body$
        DECLARE
            home mimeo_log.databases%ROWTYPE;
            total int := array_length(actors, 1);
            latest int8;
            turn int := (total * 29) & 63;
        BEGIN
            SELECT * INTO home FROM mimeo_log.databases d WHERE d.id = database_id FOR UPDATE;
            IF NOT FOUND THEN RETURN; END IF;
            IF home.head > home.truncated THEN
                SELECT o.hash INTO latest FROM mimeo_log.operations o
                WHERE o.database = home.number AND o."offset" = home.head;
                IF latest IS DISTINCT FROM home.hash THEN RETURN; END IF;
            END IF;
            PERFORM mimeo_log.settle(home.number);
            IF EXISTS (
                SELECT 1 FROM unnest(who, keys, firsts) AS w (actor, key, first)
                LEFT JOIN mimeo_log.actors a ON a.database = home.number AND a.actor = w.actor
                WHERE CASE WHEN a.actor IS NULL THEN w.first <> 1
                    ELSE a.key <> w.key OR a.sequence <> w.first - 1 END
            ) THEN RETURN; END IF;
            UPDATE mimeo_log.databases d SET head = home.head + total, settled = home.head + total,
                hash = ((home.hash << turn) | ((home.hash >> (64 - turn)) & ~((-1)::int8 << turn)))
                    # folds[total]
            WHERE d.number = home.number;
            INSERT INTO mimeo_log.actors
            SELECT home.number, w.*
            FROM unnest(who, keys, lasts, last_stamps, last_contents) AS w (actor, key, last, stamp, content)
            ON CONFLICT (database, actor) DO UPDATE SET sequence = excluded.sequence,
                "timestamp" = excluded."timestamp", hash = excluded.hash;
            INSERT INTO mimeo_log.touched
            SELECT home.number, t.touch, home.head + t.place
            FROM unnest(append_plain.touches, places) AS t (touch, place)
            ON CONFLICT (database, touch) DO UPDATE SET "offset" = excluded."offset";
            INSERT INTO mimeo_log.operations
                (database, "offset", actor, sequence, "timestamp", hash, bytes, content)
            SELECT home.number, home.head + n.i, n.actor, n.sequence, n.stamp,
                ((home.hash << n.turn) | ((home.hash >> (64 - n.turn)) & ~((-1)::int8 << n.turn)))
                    # n.fold, n.bytes, n.content
            FROM (
                SELECT *, ((o.i * 29) & 63)::int AS turn
                FROM unnest(actors, sequences, stamps, contents, folds, bodies) WITH ORDINALITY
                    AS o (actor, sequence, stamp, content, fold, bytes, i)
            ) AS n;
            home_number := home.number; head_before := home.head; hash_before := home.hash;
            RETURN NEXT;
        END $body$;

        """

    /// Removes at most `step` entries that a finished snapshot covers. Returns the offset through which
    /// entries are removed; -1 when no snapshot covers them.
    static let truncate = """
        CREATE OR REPLACE FUNCTION mimeo_log.truncate(database_id text, target int8, step int8) RETURNS int8
        LANGUAGE plpgsql AS $body$
        DECLARE
            home mimeo_log.databases%ROWTYPE;
            last int8;
            removed int8;
            last_hash int8;
        BEGIN
            SELECT * INTO home FROM mimeo_log.databases d WHERE d.id = database_id FOR UPDATE;
            IF target <= home.truncated THEN RETURN home.truncated; END IF;
            PERFORM mimeo_log.settle(home.number);
            IF NOT EXISTS (
                SELECT 1 FROM mimeo_log.snapshots s
                WHERE s.database = home.number AND s.is_finished AND s."offset" >= target
            ) THEN RETURN -1; END IF;
            last := least(target, home.truncated + step);
            WITH gone AS (
                DELETE FROM mimeo_log.operations o
                WHERE o.database = home.number AND o."offset" > home.truncated AND o."offset" <= last
                RETURNING o."offset", o.hash
            ), kept AS (
                INSERT INTO mimeo_log.hashes
                SELECT home.number, min(g."offset"), array_agg(g.hash ORDER BY g."offset") FROM gone g
                HAVING count(*) > 0
            )
            SELECT count(*), max(g.hash) FILTER (WHERE g."offset" = last) INTO removed, last_hash FROM gone g;
            IF removed <> last - home.truncated THEN
                RAISE EXCEPTION 'entries are missing' USING ERRCODE = 'XX001';
            END IF;
            -- A condition read before this is a breach from now on: the index need not know what is older.
            UPDATE mimeo_log.databases d SET truncated = last, truncated_hash = last_hash,
                indexed = greatest(d.indexed, last)
            WHERE d.number = home.number;
            RETURN last;
        END $body$;

        """

    /// Takes a free slot of a purpose; no row while others hold all of them. Concurrent leases and appends
    /// wait for each other at the lock of the database's row.
    static let lease = """
        CREATE OR REPLACE FUNCTION mimeo_log.lease(
            database_id text, wanted text, slots int8, milliseconds int8, fresh int8
        ) RETURNS TABLE (lease_number int8, lease_actor int8, lease_epoch int8)
        LANGUAGE plpgsql AS $body$
        DECLARE
            home int8;
            free mimeo_log.leases%ROWTYPE;
            made int8;
        BEGIN
            PERFORM mimeo_log.arrive();
            SELECT d.number INTO home FROM mimeo_log.databases d WHERE d.id = database_id FOR UPDATE;
            SELECT * INTO free FROM mimeo_log.leases l
            WHERE l.database = home AND l.purpose = wanted AND l.slot < slots
                AND l.expires <= clock_timestamp()
            ORDER BY l.slot LIMIT 1;
            IF NOT FOUND THEN
                SELECT count(*) INTO made FROM mimeo_log.leases l
                WHERE l.database = home AND l.purpose = wanted;
                IF made >= slots THEN RETURN; END IF;
                INSERT INTO mimeo_log.leases (database, purpose, slot, actor, epoch, expires)
                VALUES (home, wanted, made, fresh, 0, '-infinity') RETURNING * INTO free;
            END IF;
            UPDATE mimeo_log.leases l SET actor = coalesce(l.actor, fresh), epoch = l.epoch + 1,
                expires = clock_timestamp() + milliseconds * interval '1 millisecond'
            WHERE l.number = free.number
            RETURNING l.number, l.actor, l.epoch INTO lease_number, lease_actor, lease_epoch;
            RETURN NEXT;
        END $body$;

        """

    /// Checks that the log has not moved: the same server (its identifier, and its timeline, which changes
    /// with a standby or a restoration to a point in time), database and file. A moved log may have been
    /// restored from before writes of its leased actors: they are retired, and all leases are lost. A log
    /// that has never recorded its place has nothing to compare with. Runs before the first write of every
    /// connection, and whenever a lease is taken or renewed.
    static let arrive = """
        CREATE OR REPLACE FUNCTION mimeo_log.arrive() RETURNS boolean
        LANGUAGE plpgsql AS $body$
        DECLARE
            here text;
            was_known boolean;
        BEGIN
            SELECT concat_ws(
                '/', s.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), d.oid,
                pg_relation_filenode('mimeo_log.leases'))
            INTO here FROM pg_control_system() s, pg_database d WHERE d.datname = current_database();
            IF EXISTS (SELECT 1 FROM mimeo_log.home h WHERE h.place = here) THEN RETURN false; END IF;
            LOCK TABLE mimeo_log.home IN EXCLUSIVE MODE;
            IF EXISTS (SELECT 1 FROM mimeo_log.home h WHERE h.place = here) THEN RETURN false; END IF;
            was_known := EXISTS (SELECT 1 FROM mimeo_log.home);
            DELETE FROM mimeo_log.home;
            INSERT INTO mimeo_log.home VALUES (here);
            IF NOT was_known THEN RETURN false; END IF;
            UPDATE mimeo_log.leases l SET actor = NULL, epoch = l.epoch + 1, expires = '-infinity';
            RETURN true;
        END $body$;
        """
}
