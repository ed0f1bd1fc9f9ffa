-- What an analyst may try, through the proxy and by direct login on the private database. Read by test_attacks.py, which runs
-- every line on three states of the tables (people with and without one row, all of them emptied): whatever comes back must be
-- the same, and nothing may be charged unless the line says so.
-- "== name | where expected, ... | charged n [fresh]". where: simple, extended (the proxy's two protocols), proxy (both), direct, all.
-- expected: an SQLSTATE, or ok, or ok=the only value. "charged <=n": it may be refused as well. A line "---" separates steps of one session; "---!" after a step that may fail.

-- Raw rows ------------------------------------------------------------------------------------------------------------------
== plain select | proxy DP002, direct 42501
SELECT * FROM people
== table command | proxy DP002, direct 42501
TABLE people
== no columns | proxy DP002, direct 42501
SELECT FROM people
== constant over rows | proxy DP002, direct 42501
SELECT 1 FROM people
== limit 0 | proxy ok, direct 42501
SELECT * FROM people LIMIT 0
== a condition that is never true | proxy ok, direct 42501
SELECT *, age + 1 FROM people WHERE 1 = 0 AND age = 37
== the count of no rows | proxy ok=0, direct 42501
SELECT count(*), max(age), string_agg(city, ',') FROM people WHERE false
== a condition that is true for some row | proxy DP002, direct 42501
SELECT * FROM people WHERE 1 = 0 OR age = 37
== a false condition of something else | proxy DP002, direct 42501
SELECT * FROM people WHERE (SELECT false) OR age = 37
== a limit that only looks like 0 | proxy DP002, direct 42501
SELECT * FROM people LIMIT '0'::int + 1
== a limit of 0 inside, rows outside | proxy DP002, direct 42501
SELECT p.* FROM people p LEFT JOIN (SELECT * FROM people LIMIT 0) q ON true
== rows beside a false arm | proxy DP002, direct 42501
SELECT age FROM people WHERE false UNION ALL SELECT age FROM people
== except nothing | proxy DP002, direct 42501
SELECT age FROM people EXCEPT SELECT age FROM people WHERE false
== outer join kept by a false condition | proxy DP002, direct 42501
SELECT p.age FROM people p LEFT JOIN customers c ON false
== a write under LIMIT 0 | proxy DP002, direct 42501
CREATE TEMP TABLE w (n int)
---
WITH i AS (INSERT INTO w SELECT age FROM people RETURNING n) SELECT * FROM i LIMIT 0
== a CTE that a false reader shares | proxy DP002, direct 42501
WITH p AS (SELECT age FROM people) SELECT (SELECT age FROM p WHERE false), (SELECT age FROM p LIMIT 1)
== FOR UPDATE of no row | proxy DP002, direct 42501
SELECT * FROM people LIMIT 0 FOR UPDATE
== a bool that is none | proxy DP002/42804, direct 42501/42804
SELECT * FROM people WHERE NOT ('f'::text = 'f')
== CASE over rows | proxy DP002, direct 42501
SELECT CASE WHEN false THEN 1 ELSE age END FROM people
== a described statement is not run | proxy DP002, direct 42501
SELECT * FROM people WHERE age = 37 OFFSET 0
== quoted name | proxy DP002, direct 42501
SELECT * FROM "people"
== upper case name | proxy DP002, direct 42501
SELECT * FROM PEOPLE
== unicode identifier | proxy DP002, direct 42501
SELECT * FROM U&"\0070eople"
== unicode identifier with its own escape | proxy DP002, direct 42501
SELECT * FROM U&"!0070eople" UESCAPE '!'
== comment inside the name | proxy DP002, direct 42501
SELECT * FROM/**/public/* people */./**/people-- x
== nested comments | proxy DP002, direct 42501
/* /* count(*) */ */ SELECT * FROM people
== database-qualified name | proxy 0A000, direct 42501
SELECT * FROM private.public.people
== ONLY | proxy DP002, direct 42501
SELECT * FROM ONLY people
== whole-row reference | proxy DP002, direct 42501
SELECT people FROM people
== row type star | proxy DP002, direct 42501
SELECT (people).* FROM people
== row to json | proxy DP002, direct 42501
SELECT row_to_json(people) FROM people
== aggregate of whole rows | proxy DP003, direct 42501
SELECT json_agg(people) FROM people
== count of the whole row | proxy ok, direct 42501 | charged 1
SELECT count(people) FROM people WHERE age < 61
== count of the row's star | proxy ok, direct 42501 | charged 1
SELECT count(people.*) FROM people WHERE age < 62
== count of different whole rows | proxy DP003, direct 42501
SELECT count(DISTINCT people) FROM people
== count of different row values | proxy DP003, direct 42501
SELECT count(DISTINCT (sex, city)) FROM people
== string_agg of a column | proxy DP003, direct 42501
SELECT string_agg(sex, ',') FROM people
== array_agg of a column | proxy DP003, direct 42501
SELECT array_agg(age) FROM people
== minimum | proxy DP003, direct 42501
SELECT min(age) FROM people
== system column ctid | proxy DP002, direct 42501
SELECT ctid FROM people
== count by ctid | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE ctid = '(0,1)'
== count by xmin | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE xmin::text <> '0'
== count by tableoid | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE tableoid = 'people'::regclass
== group by a system column | proxy DP003, direct 42501
SELECT xmin, count(*) FROM people GROUP BY xmin
== undeclared column in a predicate | proxy DP004, direct 42501
SELECT count(*) FROM people WHERE score > 1
== undeclared column as a key | proxy DP004, direct 42501
SELECT score, count(*) FROM people GROUP BY score
== too many keys in the declared bounds | proxy DP005, direct 42501
SELECT income, count(*) FROM people GROUP BY income
== column that does not exist | proxy 42703, direct 42703
SELECT count(*) FROM people WHERE wage > 1
== relation that is not published | proxy 42P01, direct 42501
SELECT count(*) FROM notes
== relation that does not exist | all 42P01
SELECT count(*) FROM nowhere
== for update | proxy DP002, direct 42501
SELECT * FROM people FOR UPDATE
== count for update | all 0A000
SELECT count(*) FROM people FOR UPDATE
== tablesample | proxy DP003, direct 42501
SELECT count(*) FROM people TABLESAMPLE BERNOULLI (100) REPEATABLE (1)
== distinct rows | proxy DP005, direct 42501
SELECT DISTINCT income FROM people
== distinct on | proxy DP003, direct 42501
SELECT DISTINCT ON (sex) * FROM people
== window function | proxy DP002, direct 42501
SELECT row_number() OVER (ORDER BY age) FROM people
== aggregate as a window function | proxy DP002, direct 42501
SELECT count(age) OVER () FROM people

-- COPY, cursors, statements that carry a query ---------------------------------------------------------------------------------
== copy table | proxy DP002, direct 42501
COPY people TO STDOUT
== copy columns | proxy DP002, direct 42501
COPY people (age) TO STDOUT
== copy query | proxy DP002, direct 42501
COPY (SELECT * FROM people) TO STDOUT
== copy to program | proxy DP002/42501, direct 42501
COPY people TO PROGRAM 'cat > /tmp/x'
== copy anything to program | all 42501
COPY (SELECT 1) TO PROGRAM 'cat'
== copy anything to file | all 42501
COPY (SELECT 1) TO '/tmp/pge-attack'
== copy file to a temporary table | all 42501
CREATE TEMP TABLE loot (line text)
---
COPY loot FROM '/etc/passwd'
== cursor | proxy DP002, direct 42501
BEGIN
---
DECLARE c CURSOR FOR SELECT * FROM people
== cursor with hold | proxy DP002, direct 42501
DECLARE c CURSOR WITH HOLD FOR SELECT * FROM people
== create table as | proxy DP002, direct 42501
CREATE TEMP TABLE t AS SELECT * FROM people
== select into | proxy DP002, direct 42501
SELECT * INTO TEMP t FROM people
== create table as, no data | proxy DP002/ok, direct ok
CREATE TEMP TABLE t AS SELECT * FROM people WITH NO DATA
== insert select | proxy DP002, direct 42501
CREATE TEMP TABLE t (a int)
---
INSERT INTO t SELECT age FROM people
== update from | proxy DP002, direct 42501
CREATE TEMP TABLE t (a int)
---
UPDATE t SET a = 1 FROM people WHERE a = age
== delete using | proxy DP002, direct 42501
CREATE TEMP TABLE t (a int)
---
DELETE FROM t USING people WHERE a = age
== insert returning a sub-query | proxy DP002, direct 42501
CREATE TEMP TABLE t (a int)
---
INSERT INTO t VALUES (1) RETURNING (SELECT age FROM people LIMIT 1)
== merge using | proxy DP002, direct 42501
CREATE TEMP TABLE t (a int)
---
MERGE INTO t USING people ON a = age WHEN MATCHED THEN DELETE
== values with a sub-query | proxy DP002/DP003, direct 42501
VALUES ((SELECT max(id) FROM (SELECT id FROM people) p))
== prepare and execute | proxy 26000, direct 42501
PREPARE p AS SELECT * FROM people
---!
EXECUTE p
== explain | proxy DP002, direct 42501
EXPLAIN SELECT * FROM people
== explain analyze | proxy DP002, direct 42501
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT * FROM people
== explain of a cheap count | proxy ok, direct 42501
EXPLAIN SELECT count(*) FROM people WHERE age < 37
== explain analyze charges nothing | proxy ok, direct 42501
EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM people WHERE age < 36
== explain with a plan of rows | proxy ok, direct 42501
EXPLAIN (VERBOSE, FORMAT JSON) SELECT sex, count(*) FROM people GROUP BY sex
== explain of a format that could hold a plan | proxy ok, direct 42501
EXPLAIN (FORMAT XML) SELECT count(*) FROM people
== explain execute | proxy ok, direct 42501
PREPARE p AS SELECT count(*) FROM people WHERE age < 35
---!
EXPLAIN EXECUTE p

-- Views, functions, dynamic SQL --------------------------------------------------------------------------------------------------
== temporary view over rows | proxy 42P01, direct 42501
CREATE TEMP VIEW v AS SELECT * FROM people
---!
SELECT * FROM v
== temporary view over an aggregate | proxy 42P01, direct 42501
CREATE TEMP VIEW v AS SELECT count(*) FROM people
---!
SELECT * FROM v
== view that a DO block makes | proxy DP002, direct 42501
DO $$ BEGIN EXECUTE 'CREATE TEMP VIEW v AS SELECT * FROM people'; END $$
---!
SELECT * FROM pg_temp.v
== recursive view | proxy 42P01, direct 42501
CREATE TEMP RECURSIVE VIEW v (n) AS SELECT 1 UNION ALL SELECT age FROM people
---!
SELECT * FROM v
== view of the owner without a grant | proxy 42P01, direct 42501
SELECT * FROM grown
== rule | proxy ok, direct 42501
CREATE TEMP TABLE t (a int)
---
CREATE RULE r AS ON INSERT TO t DO ALSO SELECT * FROM people
---!
INSERT INTO t VALUES (1)
== sql function | proxy DP002, direct 42501
CREATE FUNCTION pg_temp.peek() RETURNS SETOF people LANGUAGE sql AS 'SELECT * FROM people'
---!
SELECT * FROM pg_temp.peek()
== sql function whose text hides the name | proxy DP002, direct 42501
CREATE FUNCTION pg_temp.peek() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM peo' || 'ple' INTO n; RETURN n; END $$
---
SELECT pg_temp.peek()
== begin atomic function | proxy 42883, direct 42501
CREATE FUNCTION pg_temp.peek() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM people; END
---!
SELECT pg_temp.peek()
== security definer function | proxy DP002, direct 42501
CREATE FUNCTION pg_temp.peek() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM peopl); EXCEPTION WHEN undefined_table THEN EXECUTE format('SELECT count(*) FROM %I', 'people'); RETURN 1; END $$
---
SELECT pg_temp.peek()
== do block | proxy DP002, direct 42501
DO $$ BEGIN PERFORM 1 FROM people; RAISE NOTICE 'found %', FOUND; END $$
== do block that swallows errors | proxy ok, direct ok
DO $$ BEGIN PERFORM 1 FROM people; RAISE NOTICE 'in'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'out %', SQLSTATE; END $$
== do block over an aggregate | proxy DP002, direct 42501
DO $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM people; RAISE NOTICE '%', n; END $$
== do block that calls dp_count | proxy DP003, direct DP005
DO $$ BEGIN PERFORM dp.dp_count('people', epsilon => 0); END $$
== query_to_xml | proxy DP002, direct 42501
SELECT query_to_xml('SELECT * FROM people', true, false, '')
== query_to_xml with a name in pieces | proxy DP002, direct 42501
SELECT query_to_xml('SELECT * FROM peo' || 'ple', true, false, '')
== table_to_xml | proxy DP002, direct 42501
SELECT table_to_xml('people', true, false, '')
== schema_to_xml | proxy DP002, direct ok
SELECT length(schema_to_xml('public', true, false, '')::text)
== cursor made by a DO block | all 25P02
BEGIN
---
DO $$ BEGIN EXECUTE 'DECLARE c CURSOR FOR SELECT * FROM people'; END $$
---!
SELECT cursor_to_xml('c', 1, true, false, '')
== ts_stat | proxy DP002, direct 42501
SELECT * FROM ts_stat('SELECT to_tsvector(sex) FROM people')
== ts_rewrite | proxy DP002, direct 42501
SELECT ts_rewrite('a'::tsquery, 'SELECT sex::tsquery, city::tsquery FROM people')
== xml of an aggregate | proxy DP002, direct 42501
SELECT query_to_xml('SELECT count(*) FROM people', true, false, '')
== trigger on a protected table | proxy 42501, direct 42501
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', NEW; RETURN NEW; END $$
---
CREATE TRIGGER t AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION pg_temp.tell()
== leaky function in a predicate | proxy DP003, direct 42501
CREATE FUNCTION pg_temp.tell(int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
SELECT count(*) FROM people WHERE pg_temp.tell(age)
== leaky function in HAVING sees released values only | proxy DP003, direct 42501
CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
SELECT count(*) FROM people HAVING pg_temp.tell(max(sex))
== untrusted language | proxy 42704, direct 42501
CREATE FUNCTION pg_temp.sh() RETURNS text LANGUAGE plpython3u AS 'import os; return os.popen("id").read()'
== foreign data wrapper | all 42501/42704
CREATE SERVER s FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1')
== user mapping of the channel | all 42501/42704
CREATE USER MAPPING FOR CURRENT_USER SERVER dp_ledger OPTIONS (user 'dp_channel')
== extension | proxy 42501, direct 42710
CREATE EXTENSION dblink

-- Joins, sub-queries, shapes ------------------------------------------------------------------------------------------------------
== sublink in a predicate | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE age > (SELECT 30 LIMIT 1)
== a sub-query that reads nothing | proxy ok, direct 42501 | charged 1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE age > (SELECT 30)
== exists in a predicate | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE EXISTS (SELECT 1)
== in sub-query | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE id IN (SELECT id FROM people)
== correlated sub-query | proxy DP003, direct 42501
SELECT (SELECT count(*) FROM people p WHERE p.age = g) FROM generate_series(18, 20) g
== lateral | proxy DP003, direct 42501
SELECT * FROM generate_series(1, 2) g, LATERAL (SELECT count(*) FROM people WHERE age = g) c
== temporary table beside protected | proxy DP003, direct 42501
CREATE TEMP TABLE mine AS SELECT 37 AS age
---
SELECT count(*) FROM people JOIN mine USING (age)
== temporary table in a comma list | proxy DP003, direct 42501
CREATE TEMP TABLE mine AS SELECT 37 AS age
---
SELECT count(*) FROM mine, people WHERE mine.age = people.age
== self join | proxy DP003, direct 42501
SELECT count(*) FROM people a, people b WHERE a.id = b.id
== cross join with a series | proxy DP003, direct 42501
SELECT count(*) FROM people, generate_series(1, 1000000)
== outer join | proxy DP003, direct 42501
SELECT count(*) FROM (VALUES (1)) v(x) LEFT JOIN people ON age = x
== rows of a sub-query | proxy DP002, direct 42501
SELECT * FROM (SELECT * FROM people) p
== count over a sub-query of rows | proxy DP002/DP003, direct 42501
SELECT count(*) FROM (SELECT age FROM people LIMIT 1) p
== rows in a CTE, counted | proxy ok, direct 42501 | charged 1
WITH p AS (SELECT * FROM people) SELECT count(*) FROM p WHERE age > 30
== rows in a CTE, shown | proxy DP002, direct 42501
WITH p AS (SELECT * FROM people) SELECT * FROM p
== CTE that shadows the table | proxy ok=1, direct ok=1
WITH people AS (SELECT 1 AS x) SELECT count(*) FROM people
== CTE with the table's own name counting it | proxy ok, direct 42501 | charged 1
WITH people AS (SELECT * FROM people) SELECT count(*) FROM people WHERE age > 31
== CTE with the table's own name showing it | proxy DP002, direct 42501
WITH people AS (SELECT * FROM people) SELECT * FROM people
== union of rows | proxy DP002, direct 42501
SELECT 1 UNION ALL SELECT age FROM people
== except of rows | proxy DP002, direct 42501
SELECT 37 EXCEPT SELECT age FROM people
== scalar sub-query of a row | proxy DP002, direct 42501
SELECT (SELECT age FROM people LIMIT 1)
== array of rows | proxy DP002, direct 42501
SELECT ARRAY(SELECT age FROM people)
== exists of rows | proxy DP002, direct 42501
SELECT EXISTS (SELECT FROM people WHERE age = 37)
== case around an exists | proxy DP002, direct 22012
SELECT CASE WHEN EXISTS (SELECT FROM people WHERE age = 37) THEN 1 / 0 END
== limit from rows | proxy DP002, direct 42501
SELECT g FROM generate_series(1, 9) g LIMIT (SELECT age FROM people LIMIT 1)
== order by rows | proxy DP002, direct 42501
SELECT g FROM generate_series(1, 9) g ORDER BY (SELECT age FROM people LIMIT 1)
== function argument from rows | proxy DP002, direct 42501
SELECT set_config('x.y', (SELECT sex FROM people LIMIT 1), false)
== join condition from rows | proxy DP002, direct 42501
SELECT 1 FROM (VALUES (1)) a(x) JOIN (VALUES (1)) b(y) ON (SELECT true FROM people LIMIT 1)
== grouping sets | proxy DP003, direct 42501
SELECT sex, count(*) FROM people GROUP BY GROUPING SETS ((sex), ())
== rollup | proxy DP003, direct 42501
SELECT sex, count(*) FROM people GROUP BY ROLLUP (sex)
== filter with a sub-query | proxy DP003, direct 42501
SELECT count(*) FILTER (WHERE age IN (SELECT 37)) FROM people
== having with a raw column | all 42803
SELECT count(*) FROM people HAVING age > 3
== having with another aggregate | proxy DP003, direct 42501
SELECT count(*) FROM people HAVING max(age) > 3
== order by another aggregate | proxy DP003, direct 42501
SELECT sex, count(*) FROM people GROUP BY sex ORDER BY array_agg(age)
== order by a raw column | all 42803
SELECT count(*) FROM people ORDER BY age
== within group | proxy ok, direct 42501 | charged 1
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age) FROM people WHERE age < 79
== count distinct of values | proxy DP003, direct 42501
SELECT count(DISTINCT age) FROM people
== ordered aggregate | proxy DP003, direct 42501
SELECT count(age ORDER BY age) FROM people
== variadic | proxy DP003, direct 42501
SELECT count(VARIADIC ARRAY[age]) FROM people
== own aggregate | proxy DP003, direct 42501
CREATE AGGREGATE pg_temp.count(int) (sfunc = int4pl, stype = int)
---
SELECT pg_temp.count(age) FROM people
== own operator | proxy DP003, direct 42501
CREATE OPERATOR pg_temp.= (leftarg = int, rightarg = int, function = int4gt)
---
SELECT count(*) FROM people WHERE age OPERATOR(pg_temp.=) 37

-- Error oracles in predicates ------------------------------------------------------------------------------------------------------
== division by zero | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE 1 / (age - 37) > 0
== modulo by zero | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE age % (age - 37) = 0
== guarded division | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE CASE WHEN age <> 36 THEN 1 / (age - 37) > 0 END
== cast of text | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE sex::int > 0
== cast of text to date | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE city::date > '2024-01-01'
== narrowing cast | proxy ok, direct 42501 | charged 1
SELECT count(*) FROM people WHERE (income * 1000)::smallint > 0
== integer overflow | proxy ok, direct 42501 | charged 1
SELECT count(*) FROM people WHERE age * 2147483647 > 0
== sum beyond the type | proxy ok, direct 42501 | charged 1
SELECT count(*) FROM people WHERE (age + 2147483647) > 0
== float overflow | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE income::float8 * 1e308 > 0
== square root | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE sqrt(age - 37) > 0
== logarithm | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE ln(age - 37) > 0
== negative substring length | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE substring(sex FROM 1 FOR age - 37) = 'a'
== repeat as a memory bomb | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE repeat(sex, age * 100000000) = ''
== like with a trailing escape | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE sex LIKE 'a\'
== like with a pattern from a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE 'x' LIKE city
== like with a custom escape | proxy DP003, direct 22025
SELECT count(*) FROM people WHERE sex LIKE 'a' ESCAPE 'xy'
== regular expression from a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE 'x' ~ city
== broken regular expression | proxy DP003/2201B, direct 2201B
SELECT count(*) FROM people WHERE sex ~ '('
== similar to | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE sex SIMILAR TO city
== date overflow | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE joined + age * 100000000 > '2024-01-01'
== shift of a date beyond the calendar | proxy ok, direct 42501 | charged 1
SELECT count(*) FROM people WHERE joined + 3660000 > '2024-01-01' OR joined - interval '10000 years' < '2024-01-01'
== shift of a date by more than 10,000 years | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE joined + 2147483647 > '2024-01-01'
== shift of a date by an interval too long for any calendar | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE joined + interval '178000000 years' > '2024-01-01'
== interval arithmetic | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE joined + make_interval(years => age * 100000) > now()
== chr of a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE chr(age - 37) = 'a'
== json of a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE city::json IS NOT NULL
== sleep on a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE age = 37 AND pg_sleep(1) IS NOT NULL
== setting on a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE set_config('x.found', age::text, false) IS NOT NULL
== sequence on a row | proxy DP003, direct 42501
CREATE TEMP SEQUENCE s
---
SELECT count(*) FROM people WHERE nextval('s') > 0
== advisory lock on a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE pg_try_advisory_lock(age)
== notify on a row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE pg_notify('c', age::text) IS NULL
== random | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE random() < 0.5
== row number in a predicate | all 42P20
SELECT count(*) FROM people WHERE row_number() OVER () = 1
== division by zero in the shown value is the analyst's own, and NULL | proxy ok, direct 42501 | charged 1
SELECT 1 / (count(*) - count(*)) FROM people WHERE age < 21
== division by zero in the shown value is an error if the analyst says so | proxy 22012, direct 42501 | charged 1
SET dp.division = 'error'
---
SELECT 1 / (count(*) - count(*)) FROM people WHERE age < 22
== dp_count: division by zero | all DP003
SELECT dp_count('people', '1 / (age - 37) > 0')
== dp_count: cast | all DP003
SELECT dp_count('people', 'sex::int > 0')
== dp_count: sub-query | all DP003
SELECT dp_count('people', 'age > (SELECT min(age) FROM people)')
== dp_count: statement in the predicate | all DP003
SELECT dp_count('people', 'true; DROP TABLE people')
== dp_count: comment in the predicate | all DP003
SELECT dp_count('people', 'true) --')
== dp_count: unbalanced parenthesis | all DP003
SELECT dp_count('people', 'true) OR (SELECT true FROM people LIMIT 1')
== dp_count: other relation's column | all 42P01
SELECT dp_count('people', 'orders.status = ''paid''')
== dp_count: parameter | all DP003
SELECT dp_count('people', 'age = $1')
== dp_count: whole row | all DP003
SELECT dp_count('people', 'people IS NOT NULL')
== dp_count: system column | all 42703
SELECT dp_count('people', 'ctid IS NOT NULL')
== dp_count: undeclared column | all DP004
SELECT dp_count('people', 'score > 1')
== dp_count: function | all DP003
SELECT dp_count('people', 'pg_sleep(1) IS NOT NULL')
== dp_count: dp_count inside | all DP003
SELECT dp_count('people', 'dp.dp_count(''people'') > 0')
== dp_count: unpublished relation | proxy 42P01, direct DP002/DP004/42501
SELECT dp_count('notes')
== dp_count: catalog | proxy DP002/DP003/DP004/42501, direct DP002/DP003/DP004/42501
SELECT dp_count('pg_class')
== dp_count: catalog of the engine | proxy 42P01, direct DP002/DP003/DP004/42501
SELECT dp_count('dp.ledger')
== dp_count: nothing | all DP003
SELECT dp_count(NULL)
== dp_count: missing relation | all 42P01
SELECT dp_count('nowhere')
== dp_count: relation by OID | proxy DP003, direct DP003
SELECT dp_count(0::oid::regclass)
== dp_group_by: key that is not declared | all DP004
SELECT * FROM dp_group_by('people', '{score}')
== dp_group_by: key that is SQL | all DP003
SELECT * FROM dp_group_by('people', ARRAY['sex, (SELECT 1)'])
== dp_group_by: other aggregate | all DP003
SELECT * FROM dp_group_by('people', '{sex}', '{max(age)}')
== dp_group_by: aggregate that is SQL | all DP003
SELECT * FROM dp_group_by('people', '{sex}', ARRAY['count(*) FROM people; SELECT 1'])

-- Parameters ------------------------------------------------------------------------------------------------------------------------
== epsilon NaN | all DP005
SELECT dp_count('people', epsilon => 'NaN')
== epsilon infinite | all DP005
SELECT dp_count('people', epsilon => 'Infinity')
== epsilon negative | all DP005
SELECT dp_count('people', epsilon => -1)
== epsilon zero | all DP005
SELECT dp_count('people', epsilon => 0)
== epsilon negative zero | all DP005
SELECT dp_count('people', epsilon => -0.0::float8)
== epsilon below float8 | all 22003
SELECT dp_count('people', epsilon => 1e-400::float8)
== epsilon tiny | all DP005
SELECT dp_count('people', epsilon => 5e-324)
== epsilon huge | all DP001/DP005
SELECT dp_count('people', epsilon => 1e308)
== epsilon above the allotment | all DP001
SELECT dp_count('people', epsilon => 5.0001)
== two budgets | all DP005
SELECT dp_count('people', epsilon => 0.1, rho => 0.1)
== alpha without beta | all DP005
SELECT dp_count('people', alpha => 0.1)
== beta of one | all DP005
SELECT dp_count('people', alpha => 0.1, beta => 1)
== rho in a pure dataset | all DP005
SELECT dp_count('people', rho => 0.1)
== unknown mechanism | all DP005/DP003
SELECT dp_count('people', mechanism => 'raw')
== unknown unit | all DP003/DP005
SELECT dp_count('people', what => 'cells')
== setting NaN | proxy DP005, direct 42501
SET dp.epsilon = 'NaN'
---
SELECT count(*) FROM people
== setting that is SQL | proxy DP005, direct 42501
SET dp.epsilon = '1; DROP TABLE people'
---
SELECT count(*) FROM people
== setting negative | all DP005
SET dp.epsilon = '-1'
---
SELECT dp_count('people')
== settings of two kinds | all DP005
SET dp.epsilon = 0.1
---
SET dp.rho = 0.1
---
SELECT dp_count('people')
== bound above the budget, many times | all DP001
SELECT dp_count('people', 'age > 20', epsilon => 9.99)
== plan of an absurd budget | all DP005
SELECT dp.dp_plan(dp.dp_count_request('people', epsilon => 'NaN'))
