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
-- Name: db_57a7427f-bf10-49f9-99af-7c10e55fbec7; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA "db_57a7427f-bf10-49f9-99af-7c10e55fbec7";


--
-- Name: mimeo_g1; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mimeo_g1;


--
-- Name: mimeo_projection; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mimeo_projection;


--
-- Name: guard(); Type: FUNCTION; Schema: mimeo_projection; Owner: -
--

CREATE FUNCTION mimeo_projection.guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        IF current_setting('mimeo.projection_format', true) IS DISTINCT FROM '2' THEN
            RAISE EXCEPTION 'a newer version of Mimeo keeps this projection';
        END IF;
        RETURN NEW;
    END
$$;


--
-- Name: rebuild(text); Type: FUNCTION; Schema: mimeo_projection; Owner: -
--

CREATE FUNCTION mimeo_projection.rebuild(database_id text) RETURNS boolean
    LANGUAGE sql
    AS $$
    UPDATE mimeo_projection.databases SET rebuild = true WHERE id = database_id RETURNING true
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: c2; Type: TABLE; Schema: mimeo_g1; Owner: -
--

CREATE TABLE mimeo_g1.c2 (
    "offset" bigint NOT NULL,
    live boolean NOT NULL,
    rough text[],
    body jsonb,
    id bytea NOT NULL,
    whole bytea,
    key text NOT NULL COLLATE pg_catalog."C",
    k0 bytea,
    k1 bytea,
    k2 bytea,
    k3 bytea,
    state bytea NOT NULL
);


--
-- Name: __server_indexes; Type: VIEW; Schema: db_57a7427f-bf10-49f9-99af-7c10e55fbec7; Owner: -
--

CREATE VIEW "db_57a7427f-bf10-49f9-99af-7c10e55fbec7".__server_indexes AS
 SELECT c2.key AS _id,
    c2.body AS document,
    c2."offset"
   FROM mimeo_g1.c2
  WHERE c2.live;


--
-- Name: c1; Type: TABLE; Schema: mimeo_g1; Owner: -
--

CREATE TABLE mimeo_g1.c1 (
    "offset" bigint NOT NULL,
    live boolean NOT NULL,
    rough text[],
    body jsonb,
    id bytea NOT NULL,
    whole bytea,
    key text NOT NULL COLLATE pg_catalog."C",
    k0 bytea,
    k1 bytea,
    k2 bytea,
    k3 bytea,
    state bytea NOT NULL
);


--
-- Name: cars; Type: VIEW; Schema: db_57a7427f-bf10-49f9-99af-7c10e55fbec7; Owner: -
--

CREATE VIEW "db_57a7427f-bf10-49f9-99af-7c10e55fbec7".cars AS
 SELECT c1.key AS _id,
    c1.body AS document,
    c1."offset"
   FROM mimeo_g1.c1
  WHERE c1.live;


--
-- Name: c3; Type: TABLE; Schema: mimeo_g1; Owner: -
--

CREATE TABLE mimeo_g1.c3 (
    "offset" bigint NOT NULL,
    live boolean NOT NULL,
    rough text[],
    body jsonb,
    id bytea NOT NULL,
    whole bytea,
    key text NOT NULL COLLATE pg_catalog."C",
    k0 bytea,
    k1 bytea,
    k2 bytea,
    k3 bytea,
    state bytea NOT NULL
);


--
-- Name: places; Type: VIEW; Schema: db_57a7427f-bf10-49f9-99af-7c10e55fbec7; Owner: -
--

CREATE VIEW "db_57a7427f-bf10-49f9-99af-7c10e55fbec7".places AS
 SELECT c3.key AS _id,
    c3.body AS document,
    c3."offset"
   FROM mimeo_g1.c3
  WHERE c3.live;


--
-- Name: collections; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.collections (
    number bigint NOT NULL,
    generation integer NOT NULL,
    name bytea NOT NULL,
    title text NOT NULL,
    view_name text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    key_columns integer DEFAULT 0 NOT NULL,
    used_columns integer DEFAULT 0 NOT NULL,
    documents bigint
);


--
-- Name: collections_number_seq; Type: SEQUENCE; Schema: mimeo_projection; Owner: -
--

ALTER TABLE mimeo_projection.collections ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_projection.collections_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: databases; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.databases (
    number integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    view_schema text NOT NULL COLLATE pg_catalog."C",
    generation integer NOT NULL,
    building integer,
    rebuild boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50');


--
-- Name: databases_number_seq; Type: SEQUENCE; Schema: mimeo_projection; Owner: -
--

ALTER TABLE mimeo_projection.databases ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_projection.databases_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: format; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.format (
    version bigint NOT NULL
);


--
-- Name: generations; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.generations (
    number integer NOT NULL,
    layout bigint NOT NULL,
    log_id bytea NOT NULL,
    "offset" bigint NOT NULL,
    hash bigint NOT NULL,
    clock bigint NOT NULL,
    reap_floor bigint NOT NULL,
    index_version bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: generations_number_seq; Type: SEQUENCE; Schema: mimeo_projection; Owner: -
--

ALTER TABLE mimeo_projection.generations ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_projection.generations_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: indexes; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.indexes (
    number bigint NOT NULL,
    generation integer NOT NULL,
    collection bigint NOT NULL,
    name bytea NOT NULL,
    keys bytea NOT NULL,
    column_number integer NOT NULL,
    filled bytea DEFAULT '\x'::bytea NOT NULL,
    is_filled boolean DEFAULT false NOT NULL,
    is_ready boolean DEFAULT false NOT NULL,
    is_exact boolean DEFAULT true NOT NULL,
    tells_values boolean DEFAULT true NOT NULL
);


--
-- Name: indexes_number_seq; Type: SEQUENCE; Schema: mimeo_projection; Owner: -
--

ALTER TABLE mimeo_projection.indexes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mimeo_projection.indexes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Data for Name: c1; Type: TABLE DATA; Schema: mimeo_g1; Owner: -
--

INSERT INTO mimeo_g1.c1 VALUES (6, false, NULL, NULL, '\x6163', NULL, 'c', NULL, NULL, NULL, NULL, '\x010001a32d3f30910dc37201a21b46434700000100000000');
INSERT INTO mimeo_g1.c1 VALUES (5, true, NULL, '{"n": 1, "_id": "a", "color": "blue", "visits": 3}', '\x6161', NULL, 'a', '\x40626c756500', '\xdf400fffffffffffff', NULL, NULL, '\x010001a32d3f30910dc37201a21b4642b000000802008080f439000001000203020000000d001205636f6c6f72010044626c7565016e0100810676697369747304050200010483');
INSERT INTO mimeo_g1.c1 VALUES (4, true, NULL, '{"n": 20, "_id": "b", "color": "red"}', '\x6162', NULL, 'b', '\x4072656400', '\xdf3fcbffffffffffff', NULL, NULL, '\x010001a32d3f30910dc37201a21b464216000008020080808c35000001000202020000000c05636f6c6f72010043726564016e2194');


--
-- Data for Name: c2; Type: TABLE DATA; Schema: mimeo_g1; Owner: -
--

INSERT INTO mimeo_g1.c2 VALUES (2, true, NULL, '{"_id": ["cars", "by_color"], "keys": [{"path": ["color"], "missing": true, "descending": false}]}', '\x8264636172736862795f636f6c6f72', NULL, '["cars","by_color"]', NULL, NULL, NULL, NULL, '\x010001a32d3f30910dc37201a21b463e1d00000301000001000101020000046b657973210727010824030a64657363656e64696e6701076d697373696e6702047061746807070145636f6c6f72');
INSERT INTO mimeo_g1.c2 VALUES (8, true, NULL, '{"_id": ["cars", "by_n"], "keys": [{"path": ["n"], "missing": true, "descending": true}]}', '\x8264636172736462795f6e', NULL, '["cars","by_n"]', NULL, NULL, NULL, NULL, '\x010001a32d3f30910dc37201a21b46450000000301000001000101020000046b657973210723010820030a64657363656e64696e6702076d697373696e67020470617468070301416e');


--
-- Data for Name: c3; Type: TABLE DATA; Schema: mimeo_g1; Owner: -
--

INSERT INTO mimeo_g1.c3 VALUES (7, true, NULL, '{"at": {"x": 1.5, "y": [1, "two", null]}, "_id": 1}', '\x01', NULL, '1', NULL, NULL, NULL, NULL, '\x010001a32d3f30910dc37201a21b4643ee00000301000001000101020000026174022101000102020000000c017821043ff8000000000000017921070703814374776f00');


--
-- Data for Name: collections; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.collections OVERRIDING SYSTEM VALUE VALUES (3, 1, '\x706c61636573', 'places', 'places', 7, 4, 0, 1);
INSERT INTO mimeo_projection.collections OVERRIDING SYSTEM VALUE VALUES (2, 1, '\x5f5f7365727665725f696e6465786573', '__server_indexes', '__server_indexes', 2, 4, 0, 2);
INSERT INTO mimeo_projection.collections OVERRIDING SYSTEM VALUE VALUES (1, 1, '\x63617273', 'cars', 'cars', 1, 4, 2, 2);


--
-- Data for Name: databases; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.databases OVERRIDING SYSTEM VALUE VALUES (1, '57a7427f-bf10-49f9-99af-7c10e55fbec7', 'db_57a7427f-bf10-49f9-99af-7c10e55fbec7', 1, NULL, false);


--
-- Data for Name: format; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.format VALUES (2);


--
-- Data for Name: generations; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.generations OVERRIDING SYSTEM VALUE VALUES (1, 2, '\xf839e0d369f99a2ca00875ccd1e4b6ba', 8, 1890554455610458135, 117686528884342784, 0, 4);


--
-- Data for Name: indexes; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.indexes OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, '\x62795f636f6c6f72', '\x81838165636f6c6f72f4f5', 0, '\x6162', true, true, true, true);
INSERT INTO mimeo_projection.indexes OVERRIDING SYSTEM VALUE VALUES (2, 1, 1, '\x62795f6e', '\x818381616ef5f5', 1, '\x6162', true, true, true, true);


--
-- Name: collections_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.collections_number_seq', 3, true);


--
-- Name: databases_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.databases_number_seq', 1, true);


--
-- Name: generations_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.generations_number_seq', 1, true);


--
-- Name: indexes_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.indexes_number_seq', 2, true);


--
-- Name: c1 c1_pkey; Type: CONSTRAINT; Schema: mimeo_g1; Owner: -
--

ALTER TABLE ONLY mimeo_g1.c1
    ADD CONSTRAINT c1_pkey PRIMARY KEY (id);


--
-- Name: c2 c2_pkey; Type: CONSTRAINT; Schema: mimeo_g1; Owner: -
--

ALTER TABLE ONLY mimeo_g1.c2
    ADD CONSTRAINT c2_pkey PRIMARY KEY (id);


--
-- Name: c3 c3_pkey; Type: CONSTRAINT; Schema: mimeo_g1; Owner: -
--

ALTER TABLE ONLY mimeo_g1.c3
    ADD CONSTRAINT c3_pkey PRIMARY KEY (id);


--
-- Name: collections collections_generation_name_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.collections
    ADD CONSTRAINT collections_generation_name_key UNIQUE (generation, name);


--
-- Name: collections collections_generation_view_name_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.collections
    ADD CONSTRAINT collections_generation_view_name_key UNIQUE (generation, view_name);


--
-- Name: collections collections_pkey; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (number);


--
-- Name: databases databases_id_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.databases
    ADD CONSTRAINT databases_id_key UNIQUE (id);


--
-- Name: databases databases_pkey; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.databases
    ADD CONSTRAINT databases_pkey PRIMARY KEY (number);


--
-- Name: databases databases_view_schema_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.databases
    ADD CONSTRAINT databases_view_schema_key UNIQUE (view_schema);


--
-- Name: generations generations_pkey; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.generations
    ADD CONSTRAINT generations_pkey PRIMARY KEY (number);


--
-- Name: indexes indexes_collection_column_number_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.indexes
    ADD CONSTRAINT indexes_collection_column_number_key UNIQUE (collection, column_number);


--
-- Name: indexes indexes_collection_name_key; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.indexes
    ADD CONSTRAINT indexes_collection_name_key UNIQUE (collection, name);


--
-- Name: indexes indexes_pkey; Type: CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.indexes
    ADD CONSTRAINT indexes_pkey PRIMARY KEY (number);


--
-- Name: c1_id_idx; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c1_id_idx ON mimeo_g1.c1 USING btree (id) WHERE (live AND (rough IS NOT NULL));


--
-- Name: c1_k0; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c1_k0 ON mimeo_g1.c1 USING btree (k0) WHERE live;


--
-- Name: c1_k1; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c1_k1 ON mimeo_g1.c1 USING btree (k1) WHERE live;


--
-- Name: c2_id_idx; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c2_id_idx ON mimeo_g1.c2 USING btree (id) WHERE (live AND (rough IS NOT NULL));


--
-- Name: c3_id_idx; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c3_id_idx ON mimeo_g1.c3 USING btree (id) WHERE (live AND (rough IS NOT NULL));


--
-- Name: generations guard; Type: TRIGGER; Schema: mimeo_projection; Owner: -
--

CREATE TRIGGER guard BEFORE UPDATE ON mimeo_projection.generations FOR EACH ROW EXECUTE FUNCTION mimeo_projection.guard();


--
-- Name: databases databases_building_fkey; Type: FK CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.databases
    ADD CONSTRAINT databases_building_fkey FOREIGN KEY (building) REFERENCES mimeo_projection.generations(number);


--
-- Name: databases databases_generation_fkey; Type: FK CONSTRAINT; Schema: mimeo_projection; Owner: -
--

ALTER TABLE ONLY mimeo_projection.databases
    ADD CONSTRAINT databases_generation_fkey FOREIGN KEY (generation) REFERENCES mimeo_projection.generations(number);


--
-- PostgreSQL database dump complete
--


