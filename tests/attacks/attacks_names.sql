-- One name in many spellings, other names that look like it, strings and settings: the same form as attacks.sql.

-- Names and strings in every spelling ---------------------------------------------------------------------------------------------------------------
== unicode identifier, long escapes | proxy DP002, direct 42501
SELECT * FROM U&"\+000070eople"
== unicode identifier in the schema | proxy DP002, direct 42501
SELECT * FROM U&"\0070ublic".U&"peopl\0065"
== unicode escapes in a column of a block | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE U&"\0061ge" > 18
== unicode string as the relation of a call | all ok | charged 1
SET dp.epsilon = 0.01
---
SELECT dp_count(U&'\0070eople', 'age > 71')
== escape string as the relation of a call | all ok | charged 1
SET dp.epsilon = 0.01
---
SELECT dp_count(E'\x70eople', 'age > 72')
== escape string in a predicate text | all ok | charged 1
SET dp.epsilon = 0.01
---
SELECT dp_count('people', 'sex = E''\x6d'' AND age > 20')
== escape string in a block | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = E'\146' AND age > 19
== escape string with a quote in a block | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = E'\' OR true OR \'' AND age > 19
== unicode string in a block | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = U&'\006D' AND age > 18
== national string in a block | proxy ok/DP003, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = N'x' AND age > 18
== bit string in a block | proxy DP003/42883, direct 42501/42883
SELECT count(*) FROM people WHERE age = B'101'
== dollar quotes in a block | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = $q$'; SELECT 1 --$q$ AND age > 18
== number with a separator | proxy 42601/ok/DP003, direct 42601/42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > 1_8
== hexadecimal number | proxy 42601/ok/DP003, direct 42601/42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > 0x12
== upper case quoted name is another relation | all 42P01
SELECT count(*) FROM "People"
== quoted name with a space | all 42P01
SELECT count(*) FROM "people "
== full-width letters are another relation | all 42P01
SELECT count(*) FROM ｐｅｏｐｌｅ
== a letter that lower-cases to ours is another relation | all 42P01
SELECT count(*) FROM "peoplE"
== dotless i in a name | all 42P01
SELECT count(*) FROM ıtems
== kelvin sign in a column | proxy 42703, direct 42703/42501
SELECT count(*) FROM people WHERE "sKore" > 1
== comment that looks closed | proxy DP002, direct 42501
SELECT /* /* */ 1, */ * FROM people
== comment inside a number | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > 1/**/+/* 7 */18

-- Names that are cut, shadowed, looked up elsewhere -------------------------------------------------------------------------------------------------
== name longer than names are | all 42P01
SELECT count(*) FROM peoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeople
== temporary table whose cut name is another's | all ok=0
CREATE TEMP TABLE peoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeople (a int)
---
SELECT count(*) FROM peoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeoplepeo
== alias that names the table again | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people AS orders WHERE orders.age > 69
== alias hides the name | proxy 42P01, direct 42501/42P01
SELECT count(*) FROM people AS p WHERE people.age > 18
== alias of a CTE shadows the table for one arm only | proxy DP002, direct 42501
WITH people AS (SELECT 1 AS age) SELECT age FROM people UNION ALL SELECT age FROM public.people
== CTE of an inner level shadows there only | proxy DP002, direct 42501
SELECT (WITH people AS (SELECT 1 AS age) SELECT max(age) FROM people), p.age FROM people p
== CTE shadows in an inner block | proxy ok=1, direct ok=1
SET dp.epsilon = 0.01
---
WITH people AS (SELECT 40 AS age) SELECT (SELECT count(*) FROM people WHERE age > 18)
== CTE defined later does not shadow earlier | proxy DP002, direct 42501
WITH a AS (SELECT age FROM people), people AS (SELECT 1 AS age) SELECT * FROM a
== recursive CTE shadows itself | proxy ok=3, direct ok=3
SET dp.epsilon = 0.01
---
WITH RECURSIVE people(age) AS (SELECT 1 UNION ALL SELECT age + 1 FROM people WHERE age < 3) SELECT count(*) FROM people
== derived table named like it | proxy ok=2, direct ok=2
SELECT count(*) FROM (VALUES (1), (2)) AS people(age) WHERE age > 0
== function alias named like it | proxy ok=3, direct ok=3
SELECT count(*) FROM generate_series(1, 3) AS people
== join alias hides | proxy DP002/DP003/42P01, direct 42501/42P01
SELECT count(*) FROM (people JOIN (VALUES (1)) v(x) ON true) AS j WHERE j.age > 18
== temporary sequence of its name | all 42P01/42501/ok
CREATE TEMP SEQUENCE people
---
SELECT last_value FROM people
== temporary index of its name | proxy 42501/42809/DP002/DP003, direct 42501/42809
CREATE TEMP TABLE t (a int)
---
CREATE INDEX people ON t (a)
---!
SELECT count(*) FROM people TABLESAMPLE SYSTEM (1)
== composite type of its name | proxy 42809/42P01/42501, direct 42809/42P01/42501
CREATE TYPE pg_temp.people AS (a int)
---
SELECT * FROM people
== temporary table behind a savepoint | proxy DP002, direct 42501
BEGIN
---
SAVEPOINT s
---
CREATE TEMP TABLE people (age int)
---
ROLLBACK TO s
---
SELECT * FROM people
== search_path with dollar user | proxy DP002, direct 42501
SET search_path = "$user", public
---
SELECT * FROM people
== search_path with a schema that does not exist | proxy DP002, direct 42501
SET search_path = nowhere, public, pg_catalog
---
SELECT * FROM people
== pg_catalog last in the search_path | proxy DP002, direct 42501
SET search_path = public, pg_catalog
---
SELECT * FROM people
== search_path changed inside the transaction only | proxy DP002, direct 42501
BEGIN
---
SET LOCAL search_path = public
---
SELECT id FROM people
== search_path of a function | proxy DP002, direct 42501
CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE sql SET search_path = public AS 'SELECT count(*) FROM people'
---!
SELECT pg_temp.f()
== SQL function with default arguments that ask | proxy DP003/DP002/42601/0A000/42883, direct 42501/0A000/42883
CREATE FUNCTION pg_temp.f(n bigint DEFAULT (SELECT count(*) FROM people)) RETURNS bigint LANGUAGE sql AS 'SELECT n'
---!
SELECT pg_temp.f()
== procedure with a commit inside | proxy DP002, direct 42501
CREATE PROCEDURE pg_temp.p() LANGUAGE plpgsql AS $$ BEGIN COMMIT; PERFORM age FROM people; END $$
---
CALL pg_temp.p()
== window function of one's own | proxy DP002/DP003/42883, direct 42501/42883
SELECT pg_temp.w(age) OVER () FROM people

-- What a predicate may hold -------------------------------------------------------------------------------------------------------------------------
== operator class, text pattern | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE sex ~<~ 'm'
== row constructor comparison | proxy DP003/ok, direct 42501
SELECT count(*) FROM people WHERE (age, sex) > (37, 'a')
== IS DISTINCT FROM a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE people IS DISTINCT FROM NULL
== array of columns | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE ARRAY[age, id] @> ARRAY[37]
== xml of columns | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE xmlserialize(CONTENT xmlelement(name a, sex) AS text) = 'x'
== current_setting in a predicate | proxy DP003/ok, direct 42501
SELECT count(*) FROM people WHERE sex = current_setting('application_name')
== current user in a predicate | proxy DP003/ok, direct 42501
SELECT count(*) FROM people WHERE sex = current_user
== clock in a predicate | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE joined > '2020-01-02' AND clock_timestamp() > '2020-01-01'
== constants that PostgreSQL computes | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > sqrt(900) AND sex = concat('', chr(102)) AND joined > make_date(2020, 2, 1)
== constants computed by a call | all ok | charged 1
SELECT dp.dp_count('people', 'age > power(2, 5) AND sex <> to_char(3, ''"x"FM9'')', epsilon => 0.01) IS NOT NULL
== xml of the table as a constant | all DP003
SELECT dp.dp_count('people', 'sex = pg_catalog.table_to_xml(''people'', true, false, '''')::text', epsilon => 0.01)
== a query as a constant | all DP003
SELECT dp.dp_count('people', 'sex = query_to_xml(''SELECT * FROM people'', true, false, '''')::text', epsilon => 0.01)
== a file as a constant | all DP003
SELECT dp.dp_count('people', 'sex = pg_read_file(''PG_VERSION'')', epsilon => 0.01)
== a setting of the engine as a constant | all DP003
SELECT dp.dp_count('people', 'sex = current_setting(''dp.secret'', true)', epsilon => 0.01)
== rights of the engine as a constant | all DP003
SELECT dp.dp_count('people', 'has_table_privilege(''people'', ''SELECT'')', epsilon => 0.01)
== a sleep as a constant | all DP003
SELECT dp.dp_count('people', 'pg_sleep(10) IS NULL', epsilon => 0.01)
== a lock as a constant | all DP003
SELECT dp.dp_count('people', 'pg_try_advisory_lock(1)', epsilon => 0.01)
== a constant of a gigabyte | all DP003
SELECT dp.dp_count('people', 'sex = repeat(''x'', 1000000000)', epsilon => 0.01)
== a constant that cannot be | all DP003
SELECT dp.dp_count('people', 'age > sqrt(-1)', epsilon => 0.01)

-- Settings that change what a text means ------------------------------------------------------------------------------------------------------------
== statement options off, then unicode string | proxy DP003/0A000/DP002, direct 42501/0A000
SET standard_conforming_strings = off
---
SELECT count(*) FROM people WHERE sex = U&'\0066'
== backslash_quote and a quote | proxy DP003, direct 42501/22P06
SET standard_conforming_strings = off
---
SET backslash_quote = on
---
SELECT count(*) FROM people WHERE sex = '\' OR age > 1 --'
== escape string while strings are plain | proxy ok, direct 42501 | charged 1
SET backslash_quote = on
---
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE sex = E'\' OR age > 1 --' AND age > 17
== standard_conforming_strings of a function | proxy DP002, direct 42501
CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql SET standard_conforming_strings = off AS $$ BEGIN EXECUTE 'SELECT count(*) FROM people'; RETURN 1; END $$
---
SELECT pg_temp.f()
== client_encoding LATIN1 with a byte | proxy DP003, direct 42501
SET client_encoding = 'LATIN1'
---
SELECT count(*) FROM people WHERE sex = 'é'
== client_encoding in a wrong name | all 22023
SET client_encoding = 'UTF7'
== client_encoding GBK, ASCII question | proxy ok, direct 42501 | charged 1
SET client_encoding = 'GBK'
---
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > 70
== client_encoding by SET NAMES | proxy DP003, direct 42501
SET NAMES 'BIG5'
---
SELECT count(*) FROM people WHERE sex = '功'
== transform_null_equals | proxy DP003, direct 42501
SET transform_null_equals = on
---
SELECT count(*) FROM people WHERE city = NULL
== date style turns a date | proxy ok, direct 42501 | charged 1
SET DateStyle = 'SQL, DMY'
---
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE joined > '03/02/2024'

-- Statements prepared by SQL ------------------------------------------------------------------------------------------------------------------------
== prepare a statement inside a string of another | proxy DP002/26000, direct 42501/26000
PREPARE p AS SELECT 'EXECUTE q'
---
EXECUTE q
== execute with too few arguments | all 42601/42501/26000
PREPARE p (int) AS SELECT count(*) FROM people WHERE age > $1
---!
EXECUTE p
== execute with one's own document | proxy 42601/DP003/22023, direct 42501/26000/42601
PREPARE p AS SELECT count(*) FROM people
---!
EXECUTE p ('[["5"]]')
== deallocate in a function, prepare another under its name | proxy ok=7, direct ok=7
SET dp.epsilon = 0.01
---
PREPARE p AS SELECT count(*) FROM people WHERE age > 18
---!
DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; EXECUTE 'PREPARE p AS SELECT 7'; END $$
---
EXECUTE p
== prepared under a quoted name | proxy ok, direct 42501/26000 | charged 1
SET dp.epsilon = 0.01
---
PREPARE "P q""x" AS SELECT count(*) FROM people WHERE age > 73
---!
EXECUTE "P q""x"
== prepared under a name of the proxy | proxy ok, direct 42501/26000 | charged 1
SET dp.epsilon = 0.01
---
PREPARE "_pge_1" AS SELECT count(*) FROM people WHERE age > 74
---!
EXECUTE "_pge_1"
== the proxy's own statements are not seen | all ok=0
SELECT count(*) FROM pg_prepared_statements WHERE name LIKE '\_pge%' AND NOT statement LIKE '%pg_prepared_statements%'
== cursors of the proxy are not seen | all ok=0
SELECT count(*) FROM pg_cursors WHERE name LIKE '\_pge%'
== fetch from a cursor of the proxy's name | all 34000
BEGIN
---
FETCH ALL FROM "_pge_1"
== close all, deallocate all in between | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
PREPARE p AS SELECT count(*) FROM people WHERE age > 75
---!
DEALLOCATE ALL
---!
CLOSE ALL
---!
SELECT count(*) FROM people WHERE age > 75
