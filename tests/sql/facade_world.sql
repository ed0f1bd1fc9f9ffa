-- Published to the facade in tests: names, types and keys chosen to be awkward, and literals (471108, 'zecret ...') that must never get there.
CREATE SCHEMA clinic; CREATE SCHEMA "Odd ""Schema"; GRANT USAGE ON SCHEMA clinic, "Odd ""Schema" TO dp_owner, dp_reader;
CREATE EXTENSION citext SCHEMA clinic;
CREATE COLLATION clinic.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE clinic.mood AS ENUM ('zest', 'calm', 'o''clock');
CREATE DOMAIN clinic.code AS varchar(10) DEFAULT 'zecret d' CHECK (VALUE <> 'zecret check') NOT NULL;
CREATE TYPE clinic.place AS (street text COLLATE clinic.ci, moods clinic.mood[]);
CREATE TYPE clinic.span AS RANGE (subtype = float8, multirange_type_name = clinic.spans);
CREATE TABLE clinic.patient (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, taxpayerid text UNIQUE, born date NOT NULL, gone text,
  code clinic.code, nick clinic.citext, label varchar(10) COLLATE clinic.ci, home clinic.place, alive clinic.span, times clinic.spans,
  price numeric(8, 2) DEFAULT 471108, twice numeric GENERATED ALWAYS AS (price * 2) STORED, moods clinic.mood[], at timestamptz(3),
  UNIQUE NULLS NOT DISTINCT (born, label), CHECK (price <> 471108.5));
ALTER TABLE clinic.patient DROP COLUMN gone;
CREATE INDEX ON clinic.patient (born) WHERE code = 'zecret index';
COMMENT ON TABLE clinic.patient IS 'zecret comment'; COMMENT ON COLUMN clinic.patient.born IS 'zecret column comment';
CREATE TABLE clinic.visit (id bigint PRIMARY KEY, patient int NOT NULL REFERENCES clinic.patient, ward int, charge float8);
CREATE TABLE clinic.hidden (id int PRIMARY KEY, note text);
ALTER TABLE clinic.visit ADD FOREIGN KEY (ward) REFERENCES clinic.hidden;
CREATE TABLE "Odd ""Schema"."Odd 'Table" ("a ""b" int PRIMARY KEY, "$$" text);
CREATE TABLE clinic.event (at date NOT NULL, visit bigint REFERENCES clinic.visit, PRIMARY KEY (at, visit)) PARTITION BY RANGE (at);
CREATE TABLE clinic.event_471108 PARTITION OF clinic.event FOR VALUES FROM ('1999-01-01') TO ('2047-11-01');
CREATE TABLE clinic.region (code text PRIMARY KEY, title text); INSERT INTO clinic.region VALUES ('N', 'north'), ('S', 'south');
GRANT SELECT ON clinic.region TO dp_reader;
CREATE VIEW clinic.recent AS SELECT v.id, v.charge FROM clinic.visit v WHERE v.charge > 10;
CREATE VIEW clinic.recent2 AS SELECT id FROM clinic.recent;
CREATE VIEW clinic.mixed AS SELECT v.id, h.note FROM clinic.visit v JOIN clinic.hidden h ON h.id = v.ward WHERE h.note <> 'zecret view';
CREATE MATERIALIZED VIEW clinic.frozen AS SELECT 471108 AS n;
INSERT INTO clinic.patient (taxpayerid, born) OVERRIDING USER VALUE SELECT i::text, '2000-01-01'::date + i FROM generate_series(1, 50) i;
INSERT INTO clinic.hidden SELECT 1, 'zecret row'; INSERT INTO clinic.visit SELECT i, i, 1, i FROM generate_series(1, 50) i;
INSERT INTO dp.publication VALUES ('clinic.patient', 'protected',
  '{id,born,code,nick,label,home,alive,times,price,twice,moods,at}');
INSERT INTO dp.publication SELECT r::regclass, 'protected' FROM unnest(ARRAY['clinic.visit', 'clinic.event', 'clinic.recent',
  'clinic.recent2', 'clinic.mixed', 'clinic.frozen', '"Odd ""Schema"."Odd ''Table"']) r;
INSERT INTO dp.publication VALUES ('clinic.region', 'public');
CREATE FUNCTION dp.dp_rows(request jsonb, OUT label text, OUT n bigint) RETURNS SETOF record LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$ SELECT 'zecret body', 471108::bigint $$;
REVOKE ALL ON FUNCTION dp.dp_rows FROM PUBLIC; GRANT EXECUTE ON FUNCTION dp.dp_rows TO dp_analyst;
CREATE FUNCTION dp._internal() RETURNS text LANGUAGE sql AS $$ SELECT 'zecret function' $$; REVOKE ALL ON FUNCTION dp._internal FROM PUBLIC;
