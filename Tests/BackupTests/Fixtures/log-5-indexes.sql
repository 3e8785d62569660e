--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: mimeo_log; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mimeo_log;


--
-- Name: append(text, bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], text[], bytea[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.append(database_id text, calls bigint[], actors bigint[], sequences bigint[], stamps bigint[], contents bigint[], digests bigint[], keys text[], bodies bytea[], touches bigint[], touch_ends bigint[], reads bigint[], read_ends bigint[], read_ats bigint[], lease_numbers bigint[], lease_epochs bigint[]) RETURNS TABLE(verdict bigint, value bigint)
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: append_plain(text, bigint[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bytea[], bigint[], bigint[]); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.append_plain(database_id text, who bigint[], keys text[], firsts bigint[], lasts bigint[], last_stamps bigint[], last_contents bigint[], actors bigint[], sequences bigint[], stamps bigint[], contents bigint[], folds bigint[], bodies bytea[], touches bigint[], places bigint[]) RETURNS TABLE(home_number bigint, head_before bigint, hash_before bigint)
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: arrive(); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.arrive() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: create_database(text, bytea, bigint); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.create_database(new_id text, new_log_id bytea, start bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: lease(text, text, bigint, bigint, bigint); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.lease(database_id text, wanted text, slots bigint, milliseconds bigint, fresh bigint) RETURNS TABLE(lease_number bigint, lease_actor bigint, lease_epoch bigint)
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: settle(bigint); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.settle(home bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
END $$;


--
-- Name: truncate(text, bigint, bigint); Type: FUNCTION; Schema: mimeo_log; Owner: -
--

CREATE FUNCTION mimeo_log.truncate(database_id text, target bigint, step bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
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
END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: actors; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.actors (
    database bigint NOT NULL,
    actor bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    "timestamp" bigint NOT NULL,
    hash bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: chunks; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.chunks (
    snapshot bigint NOT NULL,
    number bigint NOT NULL,
    hash bigint NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY mimeo_log.chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;


--
-- Name: databases; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.databases (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    log_id bytea NOT NULL,
    head bigint NOT NULL,
    hash bigint NOT NULL,
    truncated bigint DEFAULT 0 NOT NULL,
    truncated_hash bigint DEFAULT 0 NOT NULL,
    indexed bigint DEFAULT 0 NOT NULL,
    settled bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: databases_number_seq; Type: SEQUENCE; Schema: mimeo_log; Owner: -
--

ALTER TABLE mimeo_log.databases ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_log.databases_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: format; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.format (
    version bigint NOT NULL
);


--
-- Name: hashes; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.hashes (
    database bigint NOT NULL,
    first bigint NOT NULL,
    hashes bigint[] NOT NULL
);


--
-- Name: home; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.home (
    place text NOT NULL
);


--
-- Name: leases; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.leases (
    number bigint NOT NULL,
    database bigint NOT NULL,
    purpose text NOT NULL COLLATE pg_catalog."C",
    slot bigint NOT NULL,
    actor bigint,
    epoch bigint NOT NULL,
    expires timestamp with time zone NOT NULL
);


--
-- Name: leases_number_seq; Type: SEQUENCE; Schema: mimeo_log; Owner: -
--

ALTER TABLE mimeo_log.leases ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_log.leases_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: operations; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.operations (
    database bigint NOT NULL,
    "offset" bigint NOT NULL,
    actor bigint NOT NULL,
    sequence bigint NOT NULL,
    "timestamp" bigint NOT NULL,
    hash bigint NOT NULL,
    bytes bytea NOT NULL,
    content bigint DEFAULT 0 NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    touches bigint[] DEFAULT '{}'::bigint[] NOT NULL
)
PARTITION BY LIST (database);
ALTER TABLE ONLY mimeo_log.operations ALTER COLUMN touches SET STORAGE EXTERNAL;


--
-- Name: operations_1; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.operations_1 (
    database bigint NOT NULL,
    "offset" bigint NOT NULL,
    actor bigint NOT NULL,
    sequence bigint NOT NULL,
    "timestamp" bigint NOT NULL,
    hash bigint NOT NULL,
    bytes bytea NOT NULL,
    content bigint DEFAULT 0 NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    touches bigint[] DEFAULT '{}'::bigint[] NOT NULL
);
ALTER TABLE ONLY mimeo_log.operations_1 ALTER COLUMN touches SET STORAGE EXTERNAL;


--
-- Name: operations_2; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.operations_2 (
    database bigint NOT NULL,
    "offset" bigint NOT NULL,
    actor bigint NOT NULL,
    sequence bigint NOT NULL,
    "timestamp" bigint NOT NULL,
    hash bigint NOT NULL,
    bytes bytea NOT NULL,
    content bigint DEFAULT 0 NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    touches bigint[] DEFAULT '{}'::bigint[] NOT NULL
);
ALTER TABLE ONLY mimeo_log.operations_2 ALTER COLUMN touches SET STORAGE EXTERNAL;


--
-- Name: operations_3; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.operations_3 (
    database bigint NOT NULL,
    "offset" bigint NOT NULL,
    actor bigint NOT NULL,
    sequence bigint NOT NULL,
    "timestamp" bigint NOT NULL,
    hash bigint NOT NULL,
    bytes bytea NOT NULL,
    content bigint DEFAULT 0 NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    touches bigint[] DEFAULT '{}'::bigint[] NOT NULL
);
ALTER TABLE ONLY mimeo_log.operations_3 ALTER COLUMN touches SET STORAGE EXTERNAL;


--
-- Name: snapshots; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.snapshots (
    number bigint NOT NULL,
    database bigint NOT NULL,
    "offset" bigint NOT NULL,
    hash bigint NOT NULL,
    chunks bigint NOT NULL,
    bytes bigint NOT NULL,
    sum bigint NOT NULL,
    is_finished boolean NOT NULL
);


--
-- Name: snapshots_number_seq; Type: SEQUENCE; Schema: mimeo_log; Owner: -
--

ALTER TABLE mimeo_log.snapshots ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_log.snapshots_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: touched; Type: TABLE; Schema: mimeo_log; Owner: -
--

CREATE TABLE mimeo_log.touched (
    database bigint NOT NULL,
    touch bigint NOT NULL,
    "offset" bigint NOT NULL
)
WITH (fillfactor='80');


--
-- Name: operations_1; Type: TABLE ATTACH; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations ATTACH PARTITION mimeo_log.operations_1 FOR VALUES IN ('1');


--
-- Name: operations_2; Type: TABLE ATTACH; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations ATTACH PARTITION mimeo_log.operations_2 FOR VALUES IN ('2');


--
-- Name: operations_3; Type: TABLE ATTACH; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations ATTACH PARTITION mimeo_log.operations_3 FOR VALUES IN ('3');


--
-- Data for Name: actors; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.actors VALUES (1, -3420070805865964755, 'leased:auth-gateway', 2, 117686528656932864, 1324988325719160344);
INSERT INTO mimeo_log.actors VALUES (3, -2738532412913904208, 'leased:audit', 1, 117686528706609152, 6464464340326274455);
INSERT INTO mimeo_log.actors VALUES (2, -6688620393750740110, 'leased:query-service', 8, 117686528884342784, 9088845589314334213);


--
-- Data for Name: chunks; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--



--
-- Data for Name: databases; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (1, 'mimeo.system', '\x2893524719c7d8a306bbd22cf8a14b2e', 2, 7594668776870477838, 0, 0, 0, 2);
INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (3, 'mimeo.audit', '\x747e0ea3b85cc2891ff4ccd38f5e411c', 1, 4259505643775182846, 0, 0, 0, 1);
INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (2, '57a7427f-bf10-49f9-99af-7c10e55fbec7', '\xf839e0d369f99a2ca00875ccd1e4b6ba', 8, 1890554455610458135, 0, 0, 0, 8);


--
-- Data for Name: format; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.format VALUES (5);


--
-- Data for Name: hashes; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--



--
-- Data for Name: home; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.home VALUES ('7712704215285256886/00000001/16384/16446');


--
-- Data for Name: leases; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (3, 2, 'query-service', 0, -6688620393750740110, 1, '-infinity');
INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (2, 3, 'audit', 0, -2738532412913904208, 1, '-infinity');
INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (1, 1, 'auth-gateway', 0, -3420070805865964755, 1, '-infinity');


--
-- Data for Name: operations_1; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_1 VALUES (1, 1, -3420070805865964755, 1, 117686528597295104, -1716318974797378130, '\x0100d08977b8edacdb2d0101a21b4633e4000001096461746162617365730126782435376137343237662d626631302d343966392d393961662d376331306535356662656337a0010100000603106372656174656441745365636f6e64730203f69ec8b00d07697346697273740202167365616c6564446576656c6f706d656e74546f6b656e02055f38773973394a4656645f5f6e7956594556446b6b756c44754b43496c463653397652456a704e6d58304d537a61686a3241505538774c687a794d424e627a462d376d6e51776c396b345a4559677332545447685535664e745f42494e475359', -5177792155419121843, '', '{}');
INSERT INTO mimeo_log.operations_1 VALUES (1, 2, -3420070805865964755, 2, 117686528656932864, 7594668776870477838, '\x0100d08977b8edacdb2d0201a21b463772000001046b6579730128782635376137343237662d626631302d343966392d393961662d3763313065353566626563372e31c9030100000603106372656174656441745365636f6e64730203f89ec8b00d097075626c69634b6579026c417452636e5f376a707042614f57684169385a44495f6159325463474c6757426162316851496b6b47664535097365616c656450454d0205e602752d57777674384d49546b52546f504655714d6b6368653163574941763868324d766e615772655f4f77326c41304a2d6e4b7a4632474664716a6d75617172766b3852374f6f764e52656b35707a356d4d485a517935364557664934586976384c5442474d735853372d4432664e76774a6f6c755347755f64597a584566716e5442304c69316c704472425a583970667748644b4c5261794b355555584251614b2d5537556a3331693554386e6e4763764a4e6355394f5f4138664e6845324f533278773755382d6e6a6232645649704662353346484657374b4965334e6b62544562457542683435386a687437386d61583039376e54356d323578784b745267745452725a4f367a7771316462656c485f674a63326661574b4d7744707566625f77626849305577725972685644493649543450432d31314b6f3942362d513177653238424834577943736358436b556c796254373239792d57774c547a37324a62636941', 1324988325719160344, '', '{}');


--
-- Data for Name: operations_2; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_2 VALUES (2, 1, -6688620393750740110, 1, 117686528724107264, -4955750522777045513, '\x0100a32d3f30910dc3720101a21b463b7300000104636172730202616115010000060205636f6c6f720244626c7565016e028102616214010000060205636f6c6f720243726564016e0282', -783828965870606292, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 2, -6688620393750740110, 2, 117686528768802816, 1161531413006366280, '\x0100a32d3f30910dc3720201a21b463e1d000001105f5f7365727665725f696e6465786573010f8264636172736862795f636f6c6f72340100000601046b657973020727010824030a64657363656e64696e6701076d697373696e6702047061746807070145636f6c6f72', 4545275914324648816, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 3, -6688620393750740110, 3, 117686528821755904, -878392147321664456, '\x0100a32d3f30910dc3720301a21b46414500000104636172730102616314010000060205636f6c6f720243726564016e0283', -7357859481075531446, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 4, -6688620393750740110, 4, 117686528835452928, 8557025175476300099, '\x0100a32d3f30910dc3720401a21b4642160000010463617273010261620d010180808c35000401016e0294', 5289578870114060292, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 5, -6688620393750740110, 5, 117686528845545472, 2906389146207845317, '\x0100a32d3f30910dc3720501a21b4642b00000010463617273010261611301018080f43900040106766973697473080883', 6572710091634528999, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 6, -6688620393750740110, 6, 117686528855441408, 1568474353222082080, '\x0100a32d3f30910dc3720601a21b464347000001046361727301026163080101808088100001', -1416262055997706019, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 7, -6688620393750740110, 7, 117686528866385920, 4297660941538346931, '\x0100a32d3f30910dc3720701a21b4643ee00000106706c61636573010101230100000601026174040602017802043ff8000000000000017902070703814374776f00', 1669696587167784751, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 8, -6688620393750740110, 8, 117686528884342784, 1890554455610458135, '\x0100a32d3f30910dc3720801a21b464500000001105f5f7365727665725f696e6465786573010b8264636172736462795f6e300100000601046b657973020723010820030a64657363656e64696e6702076d697373696e67020470617468070301416e', 9088845589314334213, '', '{}');


--
-- Data for Name: operations_3; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_3 VALUES (3, 1, -2738532412913904208, 1, 117686528706609152, 4259505643775182846, '\x0100d9fec747a25f95b00101a21b463a68000001056175646974011f781d3031613231623436333732312d30303030303030316234396135303536c501010000060906616374696f6e02456c6f67696e076164647265737302493132372e302e302e310261740203c2dcb1b4c36805636f756e740281086461746162617365026435376137343237662d626631302d343966392d393961662d3763313065353566626563370870726f7669646572024b646576656c6f706d656e7407726571756573740260613462633930646337333761386434393063616236393739666633643237366206726573756c7402426f6b0475736572024b646576656c6f706d656e74', 6464464340326274455, '', '{}');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--



--
-- Data for Name: touched; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.touched VALUES (1, 8432789098702680603, 1);
INSERT INTO mimeo_log.touched VALUES (1, -886885965811980794, 1);
INSERT INTO mimeo_log.touched VALUES (1, 6973776402916960285, 2);
INSERT INTO mimeo_log.touched VALUES (1, -829733734905616384, 2);
INSERT INTO mimeo_log.touched VALUES (3, -409772225962812525, 1);
INSERT INTO mimeo_log.touched VALUES (3, -117820022451371440, 1);
INSERT INTO mimeo_log.touched VALUES (2, 7130252862594167796, 2);
INSERT INTO mimeo_log.touched VALUES (2, 1739763002932600611, 4);
INSERT INTO mimeo_log.touched VALUES (2, -6103697366744356932, 5);
INSERT INTO mimeo_log.touched VALUES (2, 6752034705241480217, 6);
INSERT INTO mimeo_log.touched VALUES (2, -8171907316370541326, 6);
INSERT INTO mimeo_log.touched VALUES (2, 5264928919782163226, 7);
INSERT INTO mimeo_log.touched VALUES (2, 15866691624522751, 7);
INSERT INTO mimeo_log.touched VALUES (2, -232056351933876245, 8);
INSERT INTO mimeo_log.touched VALUES (2, 978807757776534623, 8);


--
-- Name: databases_number_seq; Type: SEQUENCE SET; Schema: mimeo_log; Owner: -
--

SELECT pg_catalog.setval('mimeo_log.databases_number_seq', 3, true);


--
-- Name: leases_number_seq; Type: SEQUENCE SET; Schema: mimeo_log; Owner: -
--

SELECT pg_catalog.setval('mimeo_log.leases_number_seq', 3, true);


--
-- Name: snapshots_number_seq; Type: SEQUENCE SET; Schema: mimeo_log; Owner: -
--

SELECT pg_catalog.setval('mimeo_log.snapshots_number_seq', 1, false);


--
-- Name: actors actors_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.actors
    ADD CONSTRAINT actors_pkey PRIMARY KEY (database, actor);


--
-- Name: chunks chunks_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.chunks
    ADD CONSTRAINT chunks_pkey PRIMARY KEY (snapshot, number);


--
-- Name: databases databases_id_key; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.databases
    ADD CONSTRAINT databases_id_key UNIQUE (id);


--
-- Name: databases databases_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.databases
    ADD CONSTRAINT databases_pkey PRIMARY KEY (number);


--
-- Name: hashes hashes_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.hashes
    ADD CONSTRAINT hashes_pkey PRIMARY KEY (database, first);


--
-- Name: leases leases_database_purpose_slot_key; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.leases
    ADD CONSTRAINT leases_database_purpose_slot_key UNIQUE (database, purpose, slot);


--
-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (number);


--
-- Name: operations operations_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (database, "offset");


--
-- Name: operations_1 operations_1_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations_1
    ADD CONSTRAINT operations_1_pkey PRIMARY KEY (database, "offset");


--
-- Name: operations_2 operations_2_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations_2
    ADD CONSTRAINT operations_2_pkey PRIMARY KEY (database, "offset");


--
-- Name: operations_3 operations_3_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.operations_3
    ADD CONSTRAINT operations_3_pkey PRIMARY KEY (database, "offset");


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (number);


--
-- Name: touched touched_pkey; Type: CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.touched
    ADD CONSTRAINT touched_pkey PRIMARY KEY (database, touch);


--
-- Name: operations_1_pkey; Type: INDEX ATTACH; Schema: mimeo_log; Owner: -
--

ALTER INDEX mimeo_log.operations_pkey ATTACH PARTITION mimeo_log.operations_1_pkey;


--
-- Name: operations_2_pkey; Type: INDEX ATTACH; Schema: mimeo_log; Owner: -
--

ALTER INDEX mimeo_log.operations_pkey ATTACH PARTITION mimeo_log.operations_2_pkey;


--
-- Name: operations_3_pkey; Type: INDEX ATTACH; Schema: mimeo_log; Owner: -
--

ALTER INDEX mimeo_log.operations_pkey ATTACH PARTITION mimeo_log.operations_3_pkey;


--
-- Name: chunks chunks_snapshot_fkey; Type: FK CONSTRAINT; Schema: mimeo_log; Owner: -
--

ALTER TABLE ONLY mimeo_log.chunks
    ADD CONSTRAINT chunks_snapshot_fkey FOREIGN KEY (snapshot) REFERENCES mimeo_log.snapshots(number) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


