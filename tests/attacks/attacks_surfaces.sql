-- Objects, roles and functions by which one might get at rows, files or others: the same form as attacks.sql.

-- Types, casts and collations of one's own ----------------------------------------------------------------------------------------------------------
== domain jsonb in pg_temp, then PREPARE over a block | proxy ok, direct 42501/26000 | charged 1
CREATE DOMAIN pg_temp.jsonb AS text CHECK (VALUE = 'x')
---
SET dp.epsilon = 0.01
---
PREPARE p AS SELECT count(*) FROM people WHERE age > 76
---!
EXECUTE p
== domain text in pg_temp, then EXPLAIN | proxy ok, direct 42501
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE = 'x')
---
EXPLAIN SELECT count(*) FROM people WHERE age > 20
== domain text in pg_temp, then a group by text | proxy ok, direct 42501 | charged 1
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE = 'x')
---
SET dp.epsilon = 0.01
---
SELECT sex, count(*) FROM people WHERE age > 77 GROUP BY sex
== domain text in pg_temp, then a group call | all ok=3 | charged 1
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE = 'x')
---
SET dp.epsilon = 0.01
---
SELECT count(*) FROM dp_group_by('people', '{sex}', predicate => 'age > 78')
== type regclass in pg_temp | all ok | charged 1
CREATE DOMAIN pg_temp.regclass AS oid
---
SET dp.epsilon = 0.01
---
SELECT dp_count('people', 'age > 79')
== domains name and oid in pg_temp | proxy ok, direct 42501 | charged 1
CREATE DOMAIN pg_temp.oid AS text CHECK (VALUE = 'x')
---
CREATE DOMAIN pg_temp.name AS text CHECK (VALUE = 'x')
---
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age BETWEEN 20 AND 21
== domain bigint is no name of a type | all ok=bigint | charged 1
CREATE DOMAIN pg_temp.int8 AS text CHECK (VALUE = 'x')
---
SET dp.epsilon = 0.01
---
CREATE TEMP TABLE t AS SELECT dp_count('people', 'age BETWEEN 20 AND 22')
---
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 1
== own implicit cast from bigint | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
CREATE TYPE pg_temp.loud AS (v text)
---
CREATE FUNCTION pg_temp.tell(bigint) RETURNS pg_temp.loud LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN ROW($1::text)::pg_temp.loud; END $$
---
CREATE CAST (bigint AS pg_temp.loud) WITH FUNCTION pg_temp.tell(bigint) AS IMPLICIT
---
SELECT (count(*)::pg_temp.loud).v FROM people WHERE age BETWEEN 20 AND 23
== own cast of a column | proxy DP003, direct 42501
CREATE TYPE pg_temp.loud AS (v text)
---
CREATE FUNCTION pg_temp.tell(int) RETURNS pg_temp.loud LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN ROW($1::text)::pg_temp.loud; END $$
---
CREATE CAST (int AS pg_temp.loud) WITH FUNCTION pg_temp.tell(int) AS IMPLICIT
---
SELECT count(*) FROM people WHERE age::pg_temp.loud IS NOT NULL
== own enum with labels, cast | proxy DP003, direct 42501
CREATE TYPE pg_temp.e AS ENUM ('f', 'm')
---
SELECT count(*) FROM people WHERE sex::pg_temp.e = 'f'
== own collation | proxy DP003, direct 42501
CREATE COLLATION pg_temp.c (locale = 'C')
---
SELECT count(*) FROM people WHERE sex COLLATE pg_temp.c = 'f'
== own collation in a key | proxy DP003, direct 42501
CREATE COLLATION pg_temp.c (locale = 'C')
---
SELECT sex COLLATE pg_temp.c, count(*) FROM people GROUP BY 1
== nondeterministic collation | proxy DP003, direct 42501/22023/0A000
CREATE COLLATION pg_temp.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)
---!
SELECT count(*) FROM people WHERE sex COLLATE pg_temp.ci = 'F'

-- Roles, memberships, settings ----------------------------------------------------------------------------------------------------------------------
== grant oneself to the gateway | all 42501
GRANT alice TO dp_gateway
== own role settings | all ok
ALTER ROLE alice SET dp.analyst = 'bob'
---!
ALTER ROLE alice SET role = 'bob'
---!
ALTER ROLE alice RESET ALL
== settings for others | all 42501
ALTER ROLE bob SET dp.epsilon = '1'
== settings for all | all 42501
ALTER ROLE ALL SET dp.epsilon = '1'
== settings for the gateway | all 42501
ALTER ROLE dp_gateway SET dp.analyst = 'alice'
== settings of the database | all 42501
ALTER DATABASE private SET dp.epsilon = '1'
== create an analyst | all 42501
CREATE ROLE helper LOGIN IN ROLE dp_analyst
== give membership | all 42501
GRANT dp_analyst TO dp_reader
== default privileges | all ok
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC
---!
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC

-- Objects of the cluster ----------------------------------------------------------------------------------------------------------------------------
== subscription | all 42501
CREATE SUBSCRIPTION s CONNECTION 'dbname=private' PUBLICATION p WITH (connect = false)
== publication | all 42501
CREATE PUBLICATION p FOR TABLE people
== publication for all | all 42501
CREATE PUBLICATION p FOR ALL TABLES
== tablespace | all 42501
CREATE TABLESPACE t LOCATION '/tmp'
== language | all 42501/42710
CREATE LANGUAGE plpython3u
== default conversion of one's own | all ok
CREATE DEFAULT CONVERSION pg_temp.c FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8
== security label | all 42501/22023
SECURITY LABEL ON TABLE people IS 'x'
== cluster | proxy 42501/25001/42704, direct 42501/25001/42704
CLUSTER people USING people_pkey
== reindex | all 42501
REINDEX TABLE people
== checkpoint command | all 42501
CHECKPOINT
== alter system reset | all 42501
ALTER SYSTEM RESET ALL
== discard plans changes nothing | proxy ok, direct ok
DISCARD PLANS
---
SELECT 1
== prepared transaction | all 55000/42501
BEGIN
---
PREPARE TRANSACTION 'x'
== isolation and snapshot | all 22023/42704
BEGIN ISOLATION LEVEL REPEATABLE READ
---
SET TRANSACTION SNAPSHOT '00000003-0000001B-1'
== advisory locks stop nobody | all ok=True | charged 1
SET dp.epsilon = 0.01
---
SELECT pg_try_advisory_lock(g) FROM generate_series(1, 20) g
---
SELECT dp_count('people', 'age BETWEEN 20 AND 24') IS NOT NULL

-- Large objects, SQL as text, links to other servers ------------------------------------------------------------------------------------------------
== large objects | all 42501
SELECT lo_creat(-1)
== lo_from_bytea | all 42501
SELECT lo_from_bytea(0, 'x')
== lo_get of any number | all 42501/42704
SELECT lo_get(16384)
== lo_open | all 42501
SELECT lo_open(16384, 262144)
== lo_export | all 42501
SELECT lo_export(16384, '/tmp/x')
== pg_largeobject | all 42501
SELECT * FROM pg_largeobject
== comment on a large object | all 42704/42501
COMMENT ON LARGE OBJECT 16384 IS 'x'
== database_to_xml | proxy DP002, direct ok/42501
SELECT length(database_to_xml(true, false, '')::text)
== ts_parse and friends take text | all ok
SELECT count(*) FROM ts_parse('default', 'SELECT * FROM people')
== dynamic SQL in xpath | all ok
SELECT xpath('//x', '<x>SELECT * FROM people</x>')
== dblink by its schema | all 42501/42883/3F000
SELECT dp_link.dblink('dbname=private', 'SELECT 1')
== dblink_connect | all 42501/42883/3F000
SELECT dp_link.dblink_connect('dbname=private')
== dblink_get_connections | all 42501/42883/3F000
SELECT dp_link.dblink_get_connections()
== servers | all ok
SELECT srvname FROM pg_foreign_server
== use of a foreign server | proxy 42704/42501, direct 42501
CREATE FOREIGN TABLE f (a int) SERVER dp_ledger
== import foreign schema | all 42501/42704
IMPORT FOREIGN SCHEMA public FROM SERVER dp_ledger INTO pg_temp
