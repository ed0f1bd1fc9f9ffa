-- DP blocks inside something that runs them never, once or often: each question is one charge, and no answer comes without one.
-- "== name | charges [| outcome]": ledger rows that one round makes ("<=1": may be refused before or after); outcome ok if not said. A line "---" separates steps of one
-- session; "---!" after a step that may fail. {block} is a SELECT, {call} an expression; each is another question, never asked before.
-- Read by test_block_shapes.py, over both protocols of the proxy.

-- Once, however often it stands in the plan -----------------------------------------------------------------------------------
== scalar sub-query for each row of a series | 1
SELECT g, ({block}) FROM generate_series(1, 5) g
== scalar sub-query in WHERE | 1
SELECT g FROM generate_series(1, 5) g WHERE g < ({block}) OR g > 0
== scalar sub-query in ORDER BY | 1
SELECT g FROM generate_series(1, 5) g ORDER BY ({block}) * g
== scalar sub-query in LIMIT | 1
SELECT g FROM generate_series(1, 5) g LIMIT abs(({block}))
== scalar sub-query in OFFSET | 1
SELECT g FROM generate_series(1, 5) g OFFSET abs(({block}))
== scalar sub-query in HAVING | 1
SELECT g % 2, max(g) FROM generate_series(1, 5) g GROUP BY 1 HAVING max(g) < ({block}) OR max(g) > 0
== scalar sub-query in GROUP BY | 1
SELECT count(g) FROM generate_series(1, 5) g GROUP BY g < ({block})
== scalar sub-query in a window frame | 1
SELECT sum(g) OVER (ORDER BY g ROWS BETWEEN abs(({block})) PRECEDING AND CURRENT ROW) FROM generate_series(1, 5) g
== scalar sub-query in a function's argument in FROM | 1
SELECT count(*) FROM generate_series(1, least(5, abs(({block})))) g
== scalar sub-query in a join condition | 1
SELECT count(*) FROM generate_series(1, 3) a JOIN generate_series(1, 3) b ON a < b AND a < ({block})
== scalar sub-query in an array | 2
SELECT ARRAY[({block}), ({block})]
== array of a block | 1
SELECT ARRAY({block})
== IN over a block | 1
SELECT 5 IN ({block})
== ANY over a block | 1
SELECT 5 = ANY ({block})
== row comparison with a block | 1
SELECT (1, 2) = (SELECT 1, x.n FROM ({block}) x(n))
== exists over a block | 1
SELECT EXISTS ({block})
== CASE that never takes the branch asks nothing | 0
SELECT CASE WHEN false THEN ({block}) END
== COALESCE that never needs it is paid all the same | 1
SELECT COALESCE(1, ({block}))
== under WHERE false | 0
SELECT ({block}) WHERE false
== LIMIT 0 | 0
SELECT * FROM ({block}) x LIMIT 0
== LIMIT 0 beside another | 1
SELECT * FROM (SELECT * FROM ({block}) x LIMIT 0) a FULL JOIN ({block}) b ON true
== HAVING that is never true | 0
{block} HAVING count(*) > 0 AND 1 > 2
== CASE whose condition is not known | 1
SELECT CASE WHEN random() > 2 THEN ({block}) END
== LIMIT 0 over a write | 1
CREATE TEMP TABLE w (n bigint)
---
WITH i AS (INSERT INTO w {block} RETURNING n) SELECT * FROM i LIMIT 0
== AND false, OR true | 0
SELECT false AND ({block}) > 3, true OR ({block}) > 3
== IF NOT EXISTS of what exists | 0
CREATE TEMP TABLE e (n bigint)
---
CREATE TEMP TABLE IF NOT EXISTS e AS {block}
== table that exists | 0 | 42P07
CREATE TEMP TABLE e (n bigint)
---
CREATE TEMP TABLE e AS {block}
== table without the right to create | 0 | 42501
CREATE TABLE public.e AS {block}
== cursor outside a transaction | 0 | 25P01
DECLARE c CURSOR FOR {block}
== derived table joined with itself by name | 1
WITH x AS ({block}) SELECT a.count, b.count FROM x a, x b
== materialized CTE | 1
WITH x AS MATERIALIZED ({block}) SELECT * FROM x UNION ALL SELECT * FROM x
== CTE that nobody reads is paid all the same | 1
WITH x AS ({block}) SELECT 1
== two CTEs | 2
WITH x AS ({block}), y AS ({block}) SELECT * FROM x, y
== union of two | 2
{block} UNION ALL {block}
== except, intersect | 3
({block} EXCEPT {block}) INTERSECT {block}
== LATERAL without an outer reference | 1
SELECT g, n FROM generate_series(1, 3) g, LATERAL ({block}) x(n)
== recursive, block in the first arm | 1
WITH RECURSIVE r(i, n) AS (SELECT 1, ({block}) UNION ALL SELECT i + 1, n FROM r WHERE i < 5) SELECT * FROM r
== recursive, block in the recursive arm | 1
WITH RECURSIVE r(i, n) AS (SELECT 1, 0::bigint UNION ALL SELECT i + 1, ({block}) FROM r WHERE i < 5) SELECT * FROM r
== values | 2
VALUES (1, ({block})), (2, ({block}))
== nested as deep as it goes | 1
SELECT (SELECT (SELECT (SELECT n FROM ({block}) a(n))))
== window over it | 1
SELECT n, row_number() OVER (ORDER BY n) FROM ({block}) x(n), generate_series(1, 3)

-- Calls ------------------------------------------------------------------------------------------------------------------------
== call for each row of a series | 1
SELECT g, {call} FROM generate_series(1, 5) g
== call in WHERE | 1
SELECT g FROM generate_series(1, 5) g WHERE g < {call} OR g > 0
== call in FROM | 1
SELECT * FROM {call} n
== call in a join condition | 1
SELECT count(*) FROM generate_series(1, 3) a JOIN generate_series(1, 3) b ON a < {call}
== call in LATERAL | 1
SELECT g, n FROM generate_series(1, 3) g, LATERAL {call} n
== call in a recursive arm | 1
WITH RECURSIVE r(i, n) AS (SELECT 1, 0::bigint UNION ALL SELECT i + 1, {call} FROM r WHERE i < 5) SELECT * FROM r
== call in values | 2
VALUES ({call}), ({call})
== the same call twice in one statement | 2
SELECT {call}, {call}
== call beside a block | 2
SELECT {call}, ({block})
== call in a window | 1
SELECT max({call}) OVER (ORDER BY g) FROM generate_series(1, 2) g
== call under an aggregate | 1
SELECT max({call}) FROM generate_series(1, 5)
== call in DISTINCT | 1
SELECT DISTINCT {call} FROM generate_series(1, 5)
== rows from | 2
SELECT * FROM ROWS FROM ({call}, {call}) AS t(a, b)

-- Statements that keep the answer ----------------------------------------------------------------------------------------------
== create table as, read twice | 1
CREATE TEMP TABLE kept AS {block}
---
SELECT * FROM kept UNION ALL SELECT * FROM kept
== create table as with column names | 1
CREATE TEMP TABLE kept (n) ON COMMIT DROP AS {block}
== select into | 1
SELECT count INTO TEMP kept FROM ({block}) x
---
SELECT * FROM kept
== insert of a block | 1
CREATE TEMP TABLE kept (n bigint)
---
INSERT INTO kept {block}
---
SELECT n FROM kept
== insert for each row of a series | 1
CREATE TEMP TABLE kept (g int, n bigint)
---
INSERT INTO kept SELECT g, ({block}) FROM generate_series(1, 4) g RETURNING n
== insert with a call for each row | 1
CREATE TEMP TABLE kept (g int, n bigint)
---
INSERT INTO kept SELECT g, {call} FROM generate_series(1, 4) g RETURNING n
== insert of several rows | 2
CREATE TEMP TABLE kept (n bigint)
---
INSERT INTO kept VALUES (({block})), (({block})) RETURNING n
== returning a block | 1
CREATE TEMP TABLE kept (g int)
---
INSERT INTO kept VALUES (1), (2), (3) RETURNING ({block})
== returning a call | 1
CREATE TEMP TABLE kept (g int)
---
INSERT INTO kept VALUES (1), (2), (3) RETURNING {call}
== on conflict do nothing | 1
CREATE TEMP TABLE kept (g int PRIMARY KEY, n bigint)
---
INSERT INTO kept VALUES (1, 1)
---
INSERT INTO kept SELECT 1, ({block}) ON CONFLICT DO NOTHING
== on conflict do update | 2
CREATE TEMP TABLE kept (g int PRIMARY KEY, n bigint)
---
INSERT INTO kept VALUES (1, 1)
---
INSERT INTO kept VALUES (1, ({block})) ON CONFLICT (g) DO UPDATE SET n = ({block}) RETURNING n
== on conflict do update where | 1
CREATE TEMP TABLE kept (g int PRIMARY KEY, n bigint)
---
INSERT INTO kept VALUES (1, 1) ON CONFLICT (g) DO UPDATE SET n = 0 WHERE kept.n < ({block})
== update of many rows | 1
CREATE TEMP TABLE kept AS SELECT g, 0::bigint AS n FROM generate_series(1, 5) g
---
UPDATE kept SET n = ({block}) RETURNING n
== update of several columns | <=1 | ok/DP003
CREATE TEMP TABLE kept AS SELECT g, 0::bigint AS n FROM generate_series(1, 5) g
---
UPDATE kept SET (g, n) = (SELECT 7, n FROM ({block}) x(n)) RETURNING n
== update from a block | 1
CREATE TEMP TABLE kept AS SELECT g, 0::bigint AS n FROM generate_series(1, 5) g
---
UPDATE kept SET n = x.n FROM ({block}) x(n) RETURNING x.n
== update where | 1
CREATE TEMP TABLE kept AS SELECT g FROM generate_series(1, 5) g
---
UPDATE kept SET g = 0 WHERE g < ({block})
== delete using a block | 1
CREATE TEMP TABLE kept AS SELECT g FROM generate_series(1, 5) g
---
DELETE FROM kept USING ({block}) x(n) WHERE g < n OR true RETURNING n
== delete in a CTE beside a block | 1
CREATE TEMP TABLE kept AS SELECT g FROM generate_series(1, 5) g
---
WITH gone AS (DELETE FROM kept RETURNING g) SELECT count(g), ({block}) FROM gone
== trigger on a temporary table sees what was paid | 1
CREATE TEMP TABLE kept (n bigint)
---
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'n %', NEW.n; RETURN NEW; END $$
---
CREATE TRIGGER tell BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION pg_temp.tell()
---
INSERT INTO kept {block}
== rule on a temporary table that doubles the insert | 1
CREATE TEMP TABLE kept (n bigint)
---
CREATE TEMP TABLE again (n bigint)
---
CREATE RULE twice AS ON INSERT TO kept DO ALSO INSERT INTO again VALUES (NEW.n)
---
INSERT INTO kept {block}
---
SELECT kept.n = again.n, kept.n, again.n FROM kept, again
== view of one's own over a kept answer | 1
CREATE TEMP TABLE kept AS {block}
---
CREATE TEMP VIEW seen AS SELECT * FROM kept, generate_series(1, 2)
---
SELECT count FROM seen
== default that reads a kept answer | 1
CREATE TEMP TABLE kept AS {block}
---
CREATE FUNCTION pg_temp.it() RETURNS bigint LANGUAGE sql AS 'SELECT count FROM kept'
---
CREATE TEMP TABLE other (a int, n bigint DEFAULT pg_temp.it())
---
INSERT INTO other (a) VALUES (1), (2) RETURNING n

-- Cursors, prepared statements, transactions ---------------------------------------------------------------------------------------
== cursor, fetched to its end | 1
BEGIN
---
DECLARE c CURSOR FOR SELECT n, g FROM ({block}) x(n), generate_series(1, 5) g
---
FETCH 2 FROM c
---
FETCH ALL FROM c
---
CLOSE c
---
COMMIT
== cursor with hold, re-read after its transaction | 1
DECLARE c SCROLL CURSOR WITH HOLD FOR {block}
---
FETCH ALL FROM c
---
MOVE ABSOLUTE 0 IN c
---
FETCH ALL FROM c
== cursor rolled back is paid | 1
BEGIN
---
DECLARE c CURSOR FOR {block}
---
FETCH 1 FROM c
---
ROLLBACK
== cursor that is never fetched is paid | 1
DECLARE c CURSOR WITH HOLD FOR {block}
---
CLOSE c
== update where current of, to an answer | 2
CREATE TEMP TABLE kept AS {block}
---
BEGIN
---
DECLARE c CURSOR FOR SELECT * FROM kept FOR UPDATE
---
FETCH 1 FROM c
---
UPDATE kept SET count = ({block}) WHERE CURRENT OF c RETURNING count
---
ROLLBACK
== prepared, executed twice: the same question once | 1
PREPARE p AS {block}
---
EXECUTE p
---
EXECUTE p
== prepared and never executed costs nothing | 0
PREPARE p AS {block}
---
DEALLOCATE p
== prepared, deallocated, prepared again as something else | 1
PREPARE p AS {block}
---
DEALLOCATE p
---
PREPARE p AS {block}
---
EXECUTE p
== prepared through a rollback: PostgreSQL keeps it | 1
BEGIN
---
PREPARE p AS {block}
---
ROLLBACK
---
EXECUTE p
== prepared with a parameter outside the block | 1
PREPARE p (int) AS SELECT n, $1 FROM ({block}) x(n)
---
EXECUTE p (1)
---
EXECUTE p (2)
== rolled back to a savepoint is paid | 1
BEGIN
---
SAVEPOINT s
---
CREATE TEMP TABLE kept AS {block}
---
ROLLBACK TO s
---
COMMIT
== without a result after the answer is paid | 1
SELECT 1 / (n - n) FROM ({block}) x(n)
== failed after the answer is paid | 1 | 22012
SET dp.division = 'error'
---
SELECT 1 / (n - n) FROM ({block}) x(n)
== failed in a later step is paid | 1
BEGIN
---
{block}
---
SELECT 1 / 0
---!
ROLLBACK
== read-only transaction | 1
BEGIN READ ONLY
---
{block}
---
COMMIT
== serializable, deferrable | 1
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE
---
{block}
---
COMMIT
== cast that overflows after the answer is paid | 1 | 22003
SELECT n::smallint FROM ({block}) x(n)
== assertion of one's own after the answer is paid | 1 | P0001
CREATE FUNCTION pg_temp.fail(bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no: %', $1; END $$
---
SELECT pg_temp.fail(n) FROM ({block}) x(n)
== constraint that refuses the answer is paid | 1 | 23514
CREATE TEMP TABLE kept (n bigint CHECK (n = 5))
---
INSERT INTO kept {block}

-- COPY, EXPLAIN ----------------------------------------------------------------------------------------------------------------
== copy of a block | 1
COPY ({block}) TO STDOUT
== copy in csv with a header | 1
COPY (SELECT n, g FROM ({block}) x(n), generate_series(1, 3) g) TO STDOUT (FORMAT csv, HEADER)
== copy in binary | 1
COPY ({block}) TO STDOUT (FORMAT binary)
== explain | 0
EXPLAIN {block}
== explain analyze | 0
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {block}
== explain verbose, json | 0
EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {block}
== explain analyze of a call | 0
EXPLAIN ANALYZE SELECT {call}
== explain analyze of an insert | 0
CREATE TEMP TABLE kept (n bigint)
---
EXPLAIN ANALYZE INSERT INTO kept {block}
---
SELECT n FROM kept
== explain analyze of create table as | 0
EXPLAIN ANALYZE CREATE TEMP TABLE kept AS {block}
== explain analyze of a cursor | 0
EXPLAIN ANALYZE DECLARE c CURSOR FOR {block}
== explain analyze of an execute | 0
PREPARE p AS {block}
---
EXPLAIN ANALYZE EXECUTE p
== explain analyze in a union | 0
EXPLAIN ANALYZE {block} UNION ALL {block}
== explain of a correlated question is refused | 0 | DP003
EXPLAIN ANALYZE SELECT (SELECT count(*) FROM people WHERE id = g) FROM generate_series(1, 3) g

-- Refused before anything is paid -----------------------------------------------------------------------------------------------
== one good and one bad block | 0 | DP003
SELECT ({block}), (SELECT count(*) FROM people TABLESAMPLE SYSTEM (1))
== one good and one that reads rows | 0 | DP002
SELECT ({block}), (SELECT age FROM people LIMIT 1)
== one good and one correlated | 0 | DP003
SELECT ({block}), (SELECT count(*) FROM people WHERE age = g) FROM generate_series(1, 2) g
== one good and one with an undeclared column | 0 | DP004
SELECT ({block}), (SELECT count(*) FROM people WHERE score > 1)
== one good and a call of another's relation | 0 | 42P01
SELECT ({block}), dp_count('notes')
== merge | 0 | DP003
CREATE TEMP TABLE kept (n bigint)
---
MERGE INTO kept USING ({block}) x(n) ON kept.n = x.n WHEN NOT MATCHED THEN INSERT VALUES (x.n)
== view over a block | 0 | DP003
CREATE TEMP VIEW v AS {block}
== view over a call | 0 | DP003
CREATE TEMP VIEW v AS SELECT {call}
== materialized view over a block | 0 | DP003
CREATE MATERIALIZED VIEW v AS {block}
== function of one's own over a call, called | 0 | DP003
CREATE FUNCTION pg_temp.ask() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN {call}; END $$
---!
SELECT pg_temp.ask()
== DO block that calls | 0 | DP003
DO $$ DECLARE n bigint; BEGIN n := {call}; END $$
== DO block that selects | 0 | DP002
DO $$ DECLARE n bigint; BEGIN n := ({block}); END $$
== update of a protected relation to its own count | 0 | 42501
UPDATE people SET age = ({block})
== insert into a protected relation | 0 | 42501
INSERT INTO people (id) {block}
== execute inside create table as | 1 | ok
PREPARE p AS {block}
---
CREATE TEMP TABLE kept AS EXECUTE p
== in an aborted transaction | 0 | 25P02
BEGIN
---
SELECT 1 / 0
---!
{block}
== a type that does not exist, outside the block | 0 | 42704
SELECT ({block})::nowhere
== a column that does not exist, outside the block | 0 | 42703
SELECT nowhere FROM ({block}) x
== a table that exists already | <=1 | 42P07
CREATE TEMP TABLE kept (n bigint)
---
CREATE TEMP TABLE kept AS {block}
== copy to a program | <=1 | 42501
COPY ({block}) TO PROGRAM 'cat'
== copy to a file | <=1 | 42501
COPY ({block}) TO '/tmp/pge-attack'
== create table as, no data | <=1
CREATE TEMP TABLE kept AS {block} WITH NO DATA
---
SELECT count FROM kept
== create table if not exists, and it does | <=1
CREATE TEMP TABLE kept (n bigint)
---
CREATE TEMP TABLE IF NOT EXISTS kept AS {block}
---
SELECT n FROM kept
== create table where nothing may be created | <=1 | 42501
CREATE TABLE public.kept AS {block}
== cursor without a transaction | <=1 | 25P01
DECLARE c CURSOR FOR {block}
== prepared name that is taken | 0 | 42P05
PREPARE p AS SELECT 1
---
PREPARE p AS {block}
