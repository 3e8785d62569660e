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

INSERT INTO mimeo_log.actors VALUES (1, -8565424199944375704, 'leased:auth-gateway', 2, 117683539186745344, 3398928011878954350);
INSERT INTO mimeo_log.actors VALUES (2, -6138097416084308733, 'leased:query-service', 9, 117683539217809408, -4102572762549237401);
INSERT INTO mimeo_log.actors VALUES (3, 6137760897670436895, 'leased:audit', 1, 117683539247955968, -6709584424259231166);


--
-- Data for Name: chunks; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--



--
-- Data for Name: databases; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (1, 'mimeo.system', '\x0a9d64ea065c79891d6c8df7a392354e', 2, -6075796388067332771, 0, 0, 0, 2);
INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (2, 'a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e', '\x1794c702ac466ed1e6d7d09b6c59f0b8', 9, 891020292053806343, 0, 0, 0, 9);
INSERT INTO mimeo_log.databases OVERRIDING SYSTEM VALUE VALUES (3, 'mimeo.audit', '\x27f827d49d813692857fe6795e4dd5ff', 1, -9040092691990942998, 0, 0, 0, 1);


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

INSERT INTO mimeo_log.home VALUES ('7712508364838560670/00000001/5/16445');


--
-- Data for Name: leases; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (2, 2, 'query-service', 0, -6138097416084308733, 1, '-infinity');
INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (3, 3, 'audit', 0, 6137760897670436895, 1, '-infinity');
INSERT INTO mimeo_log.leases OVERRIDING SYSTEM VALUE VALUES (1, 1, 'auth-gateway', 0, -8565424199944375704, 1, '-infinity');


--
-- Data for Name: operations_1; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_1 VALUES (1, 1, -8565424199944375704, 1, 117683539173113856, 2476259155061590017, '\x0100892180125bc7f2680101a2188e2c53000001096461746162617365730126782461336464636663322d646631362d343339642d613865662d653866363463313166653065a0010100000603106372656174656441745365636f6e6473020398d6c2b00d07697346697273740202167365616c6564446576656c6f706d656e74546f6b656e02055f6d5a79526556624a715a6163787a44352d76776256474c6645446c727566616263304376754c4155333433495977725a434277474b703874494d456e75375f455353587331396543306c4f63334f306246785054555267684c4f3532436573', 6238011851411323303, '', '{}');
INSERT INTO mimeo_log.operations_1 VALUES (1, 2, -8565424199944375704, 2, 117683539186745344, -6075796388067332771, '\x0100892180125bc7f2680201a2188e2d23000001046b6579730128782661336464636663322d646631362d343339642d613865662d6538663634633131666530652e31c9030100000603106372656174656441745365636f6e6473020398d6c2b00d097075626c69634b6579026c4173336952457031554f546b59506c5a5558615a394833505849504a467169377862644c392d6b552d45366c097365616c656450454d0205e602503971416944456c38475a7166507a37302d48526b535052793753703452617150484f685956346a7934705f332d5a42646b306e427350725851657650436a78744f75733756536e6c456d586d585a544437477a4947646f6664465a6b516171754567774a686b3268337866436855755761506d4764723045717a4b62414a4a494163397537477941535f4e3044626c416639757965564347594e597130534853586e4a4136307a796751736361725a6837397064664f4637436c6a54712d336a564f726c432d566a6e51495342375867675f584a6a7158745836434a4c6344534b4741415a62446e3353625a504c454e307451367a5837644671576c7957564c69395f7639336a7376393156577545754155684b4441566c48705435576a67744259537356304f6c4b31662d6d5250427447443767384f33334b695464776f4876306e7576306f6b57775649766c594f38756a7a6b72354c3579704f343242703051695051', 3398928011878954350, '', '{}');


--
-- Data for Name: operations_2; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_2 VALUES (2, 1, -6138097416084308733, 1, 117683539195658240, -22524996604246416, '\x0100aad118ebcd8d3d030101a2188e2dab0000010463617273020564666961740d01000006010573656174730284036276771a0100000602057365617473028504746167730207050241614162', 944280062413169485, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 2, -6138097416084308733, 2, 117683539200507904, 4679983112408611907, '\x0100aad118ebcd8d3d030201a2188e2df50000010463617273010564666961741101018080a80200040104736f6c64080883', -5564371169981062142, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 3, -6138097416084308733, 3, 117683539202539520, -5073510280428013464, '\x0100aad118ebcd8d3d030301a2188e2e14000001076e756d62657273010100110100000601016e02043fe0000000000000', 1037314160334318043, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 4, -6138097416084308733, 4, 117683539207585792, 3655976724389185127, '\x0100aad118ebcd8d3d030401a2188e2e61000001076e756d62657273010101110100000601016e02043ff8000000000000', -3067591009878637610, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 5, -6138097416084308733, 5, 117683539210403840, -1945289322784770687, '\x0100aad118ebcd8d3d030501a2188e2e8c000001076e756d62657273010102110100000601016e02044004000000000000', 6337150748777943411, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 6, -6138097416084308733, 6, 117683539211124736, 2346175253143597092, '\x0100aad118ebcd8d3d030601a2188e2e97000001076e756d62657273010103110100000601016e0204400c000000000000', -1589417608815128712, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 7, -6138097416084308733, 7, 117683539214139392, 4834003827695135347, '\x0100aad118ebcd8d3d030701a2188e2ec5000001076e756d62657273010104110100000601016e02044012000000000000', -3513382955721695719, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 8, -6138097416084308733, 8, 117683539215450112, 7577639650469446282, '\x0100aad118ebcd8d3d030801a2188e2ed9000001076e756d62657273010105110100000601016e02044016000000000000', -7032035184851288026, '', '{}');
INSERT INTO mimeo_log.operations_2 VALUES (2, 9, -6138097416084308733, 9, 117683539217809408, 891020292053806343, '\x0100aad118ebcd8d3d030901a2188e2efd000001076e756d62657273010103080101808098030001', -4102572762549237401, '', '{}');


--
-- Data for Name: operations_3; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.operations_3 VALUES (3, 1, 6137760897670436895, 1, 117683539247955968, -9040092691990942998, '\x0100552db50465edd81f0101a2188e30c9000001056175646974011f781d3031613231383865326431662d30303030303030313762653964653637c501010000060906616374696f6e02456c6f67696e076164647265737302493132372e302e302e310261740203beb4f188c36805636f756e740281086461746162617365026461336464636663322d646631362d343339642d613865662d6538663634633131666530650870726f7669646572024b646576656c6f706d656e7407726571756573740260646166653133656430626662393831376463613837366564633938343030646206726573756c7402426f6b0475736572024b646576656c6f706d656e74', -6709584424259231166, '', '{}');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--



--
-- Data for Name: touched; Type: TABLE DATA; Schema: mimeo_log; Owner: -
--

INSERT INTO mimeo_log.touched VALUES (1, 8432789098702680603, 1);
INSERT INTO mimeo_log.touched VALUES (1, -8705893548608287844, 1);
INSERT INTO mimeo_log.touched VALUES (1, 6973776402916960285, 2);
INSERT INTO mimeo_log.touched VALUES (1, -2319727533155410750, 2);
INSERT INTO mimeo_log.touched VALUES (2, 2323251130003923260, 1);
INSERT INTO mimeo_log.touched VALUES (2, 6752034705241480217, 2);
INSERT INTO mimeo_log.touched VALUES (2, -5085329032334895635, 2);
INSERT INTO mimeo_log.touched VALUES (2, 7682746414778480513, 3);
INSERT INTO mimeo_log.touched VALUES (2, -5136305710256536598, 4);
INSERT INTO mimeo_log.touched VALUES (2, 8961870352857754876, 5);
INSERT INTO mimeo_log.touched VALUES (2, 5665989178219991222, 7);
INSERT INTO mimeo_log.touched VALUES (2, -1836596431803205869, 8);
INSERT INTO mimeo_log.touched VALUES (2, -2184051525088052325, 9);
INSERT INTO mimeo_log.touched VALUES (2, -1225226753661830908, 9);
INSERT INTO mimeo_log.touched VALUES (3, 3248285036013967579, 1);
INSERT INTO mimeo_log.touched VALUES (3, -117820022451371440, 1);


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


