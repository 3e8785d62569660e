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
-- Name: db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA "db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e";


--
-- Name: mimeo_g1; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mimeo_g1;


--
-- Name: mimeo_projection; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mimeo_projection;


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
    state bytea NOT NULL
);


--
-- Name: cars; Type: VIEW; Schema: db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e; Owner: -
--

CREATE VIEW "db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e".cars AS
 SELECT c1.key AS _id,
    c1.body AS document,
    c1."offset"
   FROM mimeo_g1.c1
  WHERE c1.live;


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
    state bytea NOT NULL
);


--
-- Name: numbers; Type: VIEW; Schema: db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e; Owner: -
--

CREATE VIEW "db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e".numbers AS
 SELECT c2.key AS _id,
    c2.body AS document,
    c2."offset"
   FROM mimeo_g1.c2
  WHERE c2.live;


--
-- Name: collections; Type: TABLE; Schema: mimeo_projection; Owner: -
--

CREATE TABLE mimeo_projection.collections (
    number bigint NOT NULL,
    generation integer NOT NULL,
    name bytea NOT NULL,
    title text NOT NULL,
    view_name text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL
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
    reap_floor bigint NOT NULL
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
-- Data for Name: c1; Type: TABLE DATA; Schema: mimeo_g1; Owner: -
--

INSERT INTO mimeo_g1.c1 VALUES (1, true, NULL, '{"_id": "vw", "tags": ["a", "b"], "seats": 5}', '\x627677', NULL, 'vw', '\x010001aad118ebcd8d3d0301a2188e2dab000003010000010001020200000008057365617473218504746167732107050241614162');
INSERT INTO mimeo_g1.c1 VALUES (2, true, NULL, '{"_id": "fiat", "sold": 3, "seats": 4}', '\x6466696174', NULL, 'fiat', '\x010001aad118ebcd8d3d0301a2188e2df500000802008080a802000001000202020000000905736561747301008404736f6c6404050200010483');


--
-- Data for Name: c2; Type: TABLE DATA; Schema: mimeo_g1; Owner: -
--

INSERT INTO mimeo_g1.c2 VALUES (3, true, NULL, '{"n": 0.5, "_id": 0}', '\x00', NULL, '0', '\x010001aad118ebcd8d3d0301a2188e2e1400000301000001000101020000016e21043fe0000000000000');
INSERT INTO mimeo_g1.c2 VALUES (4, true, NULL, '{"n": 1.5, "_id": 1}', '\x01', NULL, '1', '\x010001aad118ebcd8d3d0301a2188e2e6100000301000001000101020000016e21043ff8000000000000');
INSERT INTO mimeo_g1.c2 VALUES (5, true, NULL, '{"n": 2.5, "_id": 2}', '\x02', NULL, '2', '\x010001aad118ebcd8d3d0301a2188e2e8c00000301000001000101020000016e21044004000000000000');
INSERT INTO mimeo_g1.c2 VALUES (7, true, NULL, '{"n": 4.5, "_id": 4}', '\x04', NULL, '4', '\x010001aad118ebcd8d3d0301a2188e2ec500000301000001000101020000016e21044012000000000000');
INSERT INTO mimeo_g1.c2 VALUES (8, true, NULL, '{"n": 5.5, "_id": 5}', '\x05', NULL, '5', '\x010001aad118ebcd8d3d0301a2188e2ed900000301000001000101020000016e21044016000000000000');
INSERT INTO mimeo_g1.c2 VALUES (9, false, NULL, NULL, '\x03', NULL, '3', '\x010001aad118ebcd8d3d0301a2188e2efd00000100000000');


--
-- Data for Name: collections; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.collections OVERRIDING SYSTEM VALUE VALUES (1, 1, '\x63617273', 'cars', 'cars', 1);
INSERT INTO mimeo_projection.collections OVERRIDING SYSTEM VALUE VALUES (2, 1, '\x6e756d62657273', 'numbers', 'numbers', 3);


--
-- Data for Name: databases; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.databases OVERRIDING SYSTEM VALUE VALUES (1, 'a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e', 'db_a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e', 1, NULL, false);


--
-- Data for Name: format; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.format VALUES (1);


--
-- Data for Name: generations; Type: TABLE DATA; Schema: mimeo_projection; Owner: -
--

INSERT INTO mimeo_projection.generations OVERRIDING SYSTEM VALUE VALUES (1, 2, '\x1794c702ac466ed1e6d7d09b6c59f0b8', 9, 891020292053806343, 117683539217809408, 0);


--
-- Name: collections_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.collections_number_seq', 2, true);


--
-- Name: databases_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.databases_number_seq', 1, true);


--
-- Name: generations_number_seq; Type: SEQUENCE SET; Schema: mimeo_projection; Owner: -
--

SELECT pg_catalog.setval('mimeo_projection.generations_number_seq', 1, true);


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
-- Name: c1_id_idx; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c1_id_idx ON mimeo_g1.c1 USING btree (id) WHERE (live AND (rough IS NOT NULL));


--
-- Name: c2_id_idx; Type: INDEX; Schema: mimeo_g1; Owner: -
--

CREATE INDEX c2_id_idx ON mimeo_g1.c2 USING btree (id) WHERE (live AND (rough IS NOT NULL));


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


