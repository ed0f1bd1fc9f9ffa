-- Statements that try to get past the net, or around it, as an analyst in his own session on the facade.
-- "name | expected": an SQLSTATE, or the text of the only value that comes back. A line "---" separates steps of one session:
-- all but the last must succeed. The trap_* objects belong to dp_facade (tests/attacks/test_facade_net.py).
== plain select | DP002
SELECT * FROM clinic.visit
== count | DP002
SELECT count(*) FROM clinic.visit
== table command | DP002
TABLE clinic.visit
== no columns | DP002
SELECT FROM clinic.visit
== constant | DP002
SELECT 1 FROM clinic.visit
== limit 0 | DP002
SELECT * FROM clinic.visit LIMIT 0
== odd names | DP002
SELECT * FROM "Odd ""Schema"."Odd 'Table"
== catalog view as table | DP002
SELECT * FROM dp.budget
== by search_path | DP002
SET search_path = clinic; SELECT * FROM patient
== alias with columns | DP002
SELECT a FROM clinic.visit AS v(a, b, c, d)
== inner join | DP002
SELECT * FROM clinic.visit v JOIN clinic.patient p ON p.id = v.patient
== left join that may be removed | DP002
SELECT p.x FROM (VALUES (1)) p(x) LEFT JOIN clinic.visit v ON v.ward = p.x
== left join on a key, unused | DP002
SELECT x FROM (VALUES (1::bigint)) g(x) LEFT JOIN clinic.visit v ON v.id = x
== full join | DP002
SELECT * FROM clinic.visit v FULL JOIN clinic.region r ON r.code = v.id::text
== cross join with public | DP002
SELECT r.title FROM clinic.region r, clinic.visit v
== lateral | DP002
SELECT * FROM clinic.region r, LATERAL (SELECT v.id FROM clinic.visit v WHERE v.id::text = r.code) l
== not exists | DP002
SELECT 1 WHERE NOT EXISTS (SELECT FROM clinic.visit)
== exists | DP002
SELECT EXISTS (SELECT FROM clinic.visit)
== not in | DP002
SELECT 1 WHERE 5 NOT IN (SELECT id FROM clinic.visit)
== any array | DP002
SELECT 5 = ANY (ARRAY(SELECT id FROM clinic.visit))
== scalar sub-select | DP002
SELECT (SELECT max(charge) FROM clinic.visit)
== coalesce of a sub-select | DP002
SELECT COALESCE((SELECT 1 FROM clinic.visit LIMIT 1), 0)
== case | DP002
SELECT CASE WHEN random() < 2 THEN 0 ELSE (SELECT count(*) FROM clinic.visit) END
== limit sub-select | DP002
SELECT 1 LIMIT (SELECT count(*) FROM clinic.visit)
== offset sub-select | DP002
SELECT 1 OFFSET (SELECT count(*) FROM clinic.visit)
== order by sub-select | DP002
SELECT 1 ORDER BY (SELECT count(*) FROM clinic.visit)
== function in from | DP002
SELECT * FROM generate_series(1, (SELECT count(*) FROM clinic.visit))
== values | DP002
VALUES ((SELECT count(*) FROM clinic.visit))
== common table expression | DP002
WITH v AS (SELECT * FROM clinic.visit) SELECT count(*) FROM v
== materialized common table expression | DP002
WITH v AS MATERIALIZED (SELECT * FROM clinic.visit) SELECT count(*) FROM v
== recursive | DP002
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, clinic.visit WHERE n < 3) SELECT * FROM r
== union | DP002
SELECT 1 UNION ALL SELECT id FROM clinic.visit
== except | DP002
SELECT 1 EXCEPT SELECT id FROM clinic.visit
== intersect | DP002
SELECT 1 INTERSECT SELECT id FROM clinic.visit
== group by | DP002
SELECT ward, count(*) FROM clinic.visit GROUP BY ward
== grouping sets | DP002
SELECT ward, count(*) FROM clinic.visit GROUP BY ROLLUP (ward)
== window | DP002
SELECT rank() OVER (ORDER BY charge) FROM clinic.visit
== distinct on | DP002
SELECT DISTINCT ON (ward) * FROM clinic.visit
== having | DP002
SELECT 1 FROM clinic.visit HAVING count(*) = 0
== false condition that is not constant | DP002
SELECT count(*) FROM clinic.visit WHERE random() > 2
== only | DP002
SELECT * FROM ONLY clinic.visit
== star on children | DP002
SELECT * FROM clinic.visit *
== tablesample | DP002
SELECT count(*) FROM clinic.visit TABLESAMPLE SYSTEM (100)
== partitioned | DP002
SELECT count(*) FROM clinic.event
== partitioned on the facade too | DP002
SELECT count(*) FROM clinic.trap_parted
== its partition | DP002
SELECT count(*) FROM clinic.trap_part
== its partition, pruned to one | DP002
SELECT count(*) FROM clinic.trap_parted WHERE k = 1
== for update | DP002
SELECT * FROM clinic.visit FOR UPDATE
== for key share | DP002
SELECT * FROM clinic.visit FOR KEY SHARE
== published view | DP002
SELECT * FROM clinic.recent
== published view over a view | DP002
SELECT count(*) FROM clinic.recent2
== view that is a table here | DP002
SELECT * FROM clinic.mixed
== materialized view that is a table here | DP002
SELECT * FROM clinic.frozen
== view of dp_facade | DP002
SELECT * FROM clinic.trap_view
== security definer, SQL | DP002
SELECT clinic.trap_definer()
== security definer, plpgsql | DP002
SELECT clinic.trap_plpgsql()
== security definer that catches | DP002
SELECT clinic.trap_catches()
== temp view | DP002
CREATE TEMP VIEW v AS SELECT * FROM clinic.visit
---
SELECT count(*) FROM v
== temp view with check | DP002
CREATE TEMP VIEW v WITH (security_barrier) AS SELECT * FROM clinic.visit WHERE charge > 1
---
SELECT count(*) FROM v WHERE false IS NULL OR random() < 2
== temp function | DP002
CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM clinic.visit'
---
SELECT pg_temp.f()
== temp function, atomic body | DP002
CREATE FUNCTION pg_temp.f() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM clinic.visit; END
---
SELECT pg_temp.f()
== temp plpgsql function | DP002
CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM clinic.visit); END'
---
SELECT pg_temp.f()
== temp table from select | DP002
CREATE TEMP TABLE t AS SELECT * FROM clinic.visit
== select into | DP002
SELECT * INTO TEMP t FROM clinic.visit
== create table as execute | DP002
PREPARE s AS SELECT * FROM clinic.visit
---
CREATE TEMP TABLE t AS EXECUTE s
== insert select into temp | DP002
CREATE TEMP TABLE t (n bigint)
---
INSERT INTO t SELECT count(*) FROM clinic.visit
== insert values of a sub-select | DP002
CREATE TEMP TABLE t (n bigint)
---
INSERT INTO t VALUES ((SELECT count(*) FROM clinic.visit))
== insert returning | DP002
CREATE TEMP TABLE t (n bigint)
---
INSERT INTO t VALUES (1) RETURNING (SELECT count(*) FROM clinic.visit)
== on conflict do update | DP002
CREATE TEMP TABLE t (n bigint PRIMARY KEY)
---
INSERT INTO t VALUES (1) ON CONFLICT (n) DO UPDATE SET n = (SELECT count(*) FROM clinic.visit)
== update from | DP002
CREATE TEMP TABLE t (n bigint)
---
UPDATE t SET n = v.id FROM clinic.visit v
== delete using | DP002
CREATE TEMP TABLE t (n bigint)
---
DELETE FROM t USING clinic.visit v WHERE v.id = n
== merge, as source | DP002
CREATE TEMP TABLE t (n bigint)
---
MERGE INTO t USING clinic.visit v ON t.n = v.id WHEN NOT MATCHED THEN INSERT VALUES (v.id)
== merge, as target | DP002
MERGE INTO clinic.visit v USING (VALUES (1)) s(x) ON s.x = v.id WHEN MATCHED THEN DELETE
== writable common table expression | DP002
CREATE TEMP TABLE t (n bigint)
---
WITH w AS (INSERT INTO t SELECT id FROM clinic.visit RETURNING n) SELECT count(*) FROM w
== temp rule | DP002
CREATE TEMP TABLE t (n bigint)
---
CREATE RULE r AS ON UPDATE TO t DO INSTEAD SELECT count(*) FROM clinic.visit
---
UPDATE t SET n = 1
== temp trigger | DP002
CREATE TEMP TABLE t (n bigint)
---
CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := (SELECT count(*) FROM clinic.visit); RETURN NEW; END'
---
CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION pg_temp.f()
---
INSERT INTO t VALUES (1)
== temp child of a protected table | 42501
CREATE TEMP TABLE t () INHERITS (clinic.visit)
== temp policy | DP002
CREATE TEMP TABLE t (n bigint)
---
CREATE POLICY p ON t USING (n IN (SELECT id FROM clinic.visit)); ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY
---
SELECT * FROM t
== temp foreign key | 42P16
CREATE TEMP TABLE t (n bigint REFERENCES clinic.visit)
== do, static | DP002
DO 'DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM clinic.visit; END'
== do, dynamic | DP002
DO $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM clinic.' || 'visit' INTO n; END $$
== do, perform | DP002
DO 'BEGIN PERFORM FROM clinic.visit; END'
== do, loop | DP002
DO 'DECLARE r record; BEGIN FOR r IN SELECT * FROM clinic.visit LOOP END LOOP; END'
== query_to_xml | DP002
SELECT query_to_xml('SELECT * FROM clinic.visit', true, false, '')
== table_to_xml | DP002
SELECT table_to_xml('clinic.visit', true, false, '')
== schema_to_xml | DP002
SELECT schema_to_xml('clinic', true, false, '')
== ts_stat | DP002
SELECT * FROM ts_stat('SELECT to_tsvector(''simple'', id::text) FROM clinic.visit')
== copy query | DP002
COPY (SELECT * FROM clinic.visit) TO STDOUT
== copy table | DP002
COPY clinic.visit TO STDOUT
== copy columns | DP002
COPY clinic.visit (id) TO STDOUT
== copy from | 42501
COPY clinic.visit FROM STDIN
== cursor | DP002
BEGIN; DECLARE c CURSOR FOR SELECT * FROM clinic.visit
== cursor with hold | DP002
DECLARE c CURSOR WITH HOLD FOR SELECT * FROM clinic.visit
== cursor_to_xml | DP002
SELECT query_to_xmlschema('SELECT 1', true, false, ''), query_to_xml_and_xmlschema('TABLE clinic.visit', true, false, '')
== explain | DP002
EXPLAIN SELECT * FROM clinic.visit
== explain analyze | DP002
EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM clinic.visit
== explain of a view | DP002
EXPLAIN (VERBOSE) SELECT * FROM clinic.recent
== execute | DP002
PREPARE s AS SELECT count(*) FROM clinic.visit
---
EXECUTE s
== execute with a parameter, generic plan | DP002
SET plan_cache_mode = force_generic_plan; PREPARE s (bigint) AS SELECT count(*) FROM clinic.visit WHERE id = $1
---
EXECUTE s (1)
== explain execute | DP002
PREPARE s AS SELECT count(*) FROM clinic.visit
---
EXPLAIN EXECUTE s
== join_collapse and geqo | DP002
SET geqo_threshold = 2; SELECT * FROM clinic.visit a, clinic.visit b, clinic.patient c
== no constant folding by settings | DP002
SET constraint_exclusion = on; SET enable_seqscan = off; SET jit = on; SELECT count(*) FROM clinic.visit WHERE id = 1
== parallel | DP002
SET debug_parallel_query = on; SELECT count(*) FROM clinic.visit
== parallel, as it was named up to 15 | DP002
SET force_parallel_mode = on; SELECT count(*) FROM clinic.visit
== currtid | DP002
SELECT ctid, xmin, tableoid FROM clinic.visit
== whole row | DP002
SELECT v FROM clinic.visit v
== row_to_json | DP002
SELECT json_agg(v) FROM clinic.visit v
== row security off | 42501
SET row_security = off; SELECT count(*) FROM clinic.visit
== row security off through a view | 42501
SET row_security = off; SELECT count(*) FROM clinic.recent
== row security off through security definer | 42501
SET row_security = off; SELECT clinic.trap_definer()
== alter table | 42501
ALTER TABLE clinic.visit DISABLE ROW LEVEL SECURITY
== drop policy | 42501
DROP POLICY pg_epsilon ON clinic.visit
== new policy | 42501
CREATE POLICY mine ON clinic.visit USING (true)
== replace the refusing function | 42501
CREATE OR REPLACE FUNCTION dp.refuse(relation text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'
== make it stable | 42501
ALTER FUNCTION dp.refuse(text) STABLE
== set role | 42501
SET ROLE dp_facade
== set session authorization | 42501
SET SESSION AUTHORIZATION dp_facade
== insert | 42501
INSERT INTO clinic.visit VALUES (1, 1, 1, 1)
== update | 42501
UPDATE clinic.visit SET charge = 0
== delete | 42501
DELETE FROM clinic.visit
== truncate | 42501
TRUNCATE clinic.visit
== analyze gives statistics of nothing | 0
SELECT count(*) FROM pg_stats WHERE schemaname = 'clinic'
== facade state | 42501
SELECT * FROM dp_state.facade_state
== lock | 42501
BEGIN; LOCK TABLE clinic.visit IN EXCLUSIVE MODE
== trigger of my own | 42501
CREATE TRIGGER t BEFORE INSERT ON clinic.visit FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
== statistics object | 42501
CREATE STATISTICS s ON id, ward FROM clinic.visit
== index | 42501
CREATE INDEX ON clinic.visit (charge)
== my foreign table | 42501
CREATE FOREIGN TABLE t (id bigint) SERVER pg_epsilon_public OPTIONS (schema_name 'clinic', table_name 'hidden')
== my user mapping | 42501
CREATE USER MAPPING FOR alice SERVER pg_epsilon_public OPTIONS (user 'postgres')
== password of the reader | t
SELECT bool_and(umoptions IS NULL) FROM pg_user_mappings
== import foreign schema | 42501
IMPORT FOREIGN SCHEMA clinic FROM SERVER pg_epsilon_public INTO public
== public table has its rows | 2
SELECT count(*) FROM clinic.region
== public table in a join | north
SELECT r.title FROM clinic.region r JOIN (VALUES ('N')) v(code) USING (code)
== write to a public table | 42501
DELETE FROM clinic.region
== stub | DP003
SELECT dp_count('clinic.visit')
== stub with named arguments | DP003
SELECT dp.dp_count(relation => 'clinic.visit', epsilon => 1)
== stub in from | DP003
SELECT * FROM dp.dp_rows('{}')
== stub in a function | DP003
CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE sql AS $$ SELECT dp.dp_count('clinic.visit') $$
---
SELECT pg_temp.f()
== stub with NULL | DP003
SELECT dp.dp_query(NULL)
== stub with a wrong argument is PostgreSQL's error | 42P01
SELECT dp_count('nosuch')
== request | {"name": "visit", "alias": null, "schema": "clinic"}
SELECT dp.dp_count_request('clinic.visit', epsilon => 0.1) -> 'from'
== request's budget | 0.1
SELECT dp.dp_count_request('clinic.visit', epsilon => 0.1) #>> '{budget,epsilon}'
== result | 5355
SELECT dp.dp_count_result('{"rows": [["5355"]]}')
== settings | 0.5
SET dp.epsilon = '0.5'; SELECT dp.session_settings() ->> 'dp.epsilon'
== unreferenced common table expression reads nothing | 1
WITH v AS (SELECT * FROM clinic.visit) SELECT 1
== branch folded away reads nothing | 1
SELECT CASE WHEN false THEN (SELECT count(*) FROM clinic.visit) ELSE 1 END
== no data | 0
CREATE TEMP TABLE t AS SELECT * FROM clinic.visit WITH NO DATA
---
SELECT count(*) FROM t
== like | 0
CREATE TEMP TABLE t (LIKE clinic.visit INCLUDING ALL)
---
SELECT count(*) FROM t
== a temp table that shadows it | 7
CREATE TEMP TABLE budget AS SELECT 7 AS n
---
SELECT n FROM budget
== privilege functions | t
SELECT has_table_privilege('clinic.visit', 'SELECT')
== regclass | clinic.visit
SELECT 'clinic.visit'::regclass
== information_schema | 4
SELECT count(*) FROM information_schema.columns WHERE table_schema = 'clinic' AND table_name = 'visit'
== description of the estimate | -1.0
SELECT reltuples FROM pg_class WHERE oid = 'clinic.visit'::regclass
== size | 0
SELECT pg_total_relation_size('clinic.visit') - pg_indexes_size('clinic.visit')
