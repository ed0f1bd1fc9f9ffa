-- Decisions and sessions that a synthetic table answers, bent into oracles: the same form as attacks.sql. Every state has its own data version, so that an
-- answer is never a repeat: what is answered here is decided at a bound that holds in every state, or shows the copy.

-- The query is text, read by the engine alone ----------------------------------------------------------------------------------------------------------
== decide: a sub-query in WHERE | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > (SELECT max(age) FROM adult)', 'adult_syn', 1e6)
== decide: a sub-query over what is not published | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE EXISTS (SELECT 1 FROM notes WHERE body = ''secret'')', 'adult_syn', 1e6)
== decide: a sub-query in FILTER | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FILTER (WHERE (SELECT true)) FROM adult', 'adult_syn', 1e6)
== decide: a sub-query as the result | simple DP003, direct DP003
SELECT dp_decide('SELECT (SELECT count(*) FROM adult)', 'adult_syn', 1e6)
== decide: a derived table | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM (SELECT * FROM adult WHERE id = -1) a', 'adult_syn', 1e6)
== decide: a CTE | simple DP003, direct DP003
SELECT dp_decide('WITH a AS (SELECT * FROM adult WHERE id = -1) SELECT count(*) FROM a', 'adult_syn', 1e6)
== decide: a CTE named like the relation | simple DP003, direct DP003
SELECT dp_decide('WITH adult AS (SELECT * FROM notes) SELECT count(*) FROM adult', 'adult_syn', 1e6)
== decide: a recursive CTE | simple DP003, direct DP003
SELECT dp_decide('WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n FROM a) SELECT count(*) FROM a', 'adult_syn', 1e6)
== decide: a union | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult UNION SELECT 1', 'adult_syn', 1e6)
== decide: values | simple DP003, direct DP003
SELECT dp_decide('VALUES (1)', 'adult_syn', 1e6)
== decide: table | simple DP003, direct DP003
SELECT dp_decide('TABLE adult', 'adult_syn', 1e6)
== decide: a second statement | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult; DROP TABLE adult', 'adult_syn', 1e6)
== decide: a second statement, hidden by a comment | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult /* ; */ ; /* ; */ SELECT 1', 'adult_syn', 1e6)
== decide: only a comment | simple DP003/42601, direct DP003/42601
SELECT dp_decide('-- SELECT count(*) FROM adult', 'adult_syn', 1e6)
== decide: a comment without end | simple 42601, direct 42601
SELECT dp_decide('SELECT count(*) FROM adult /* WHERE id = -1', 'adult_syn', 1e6)
== decide: a comment at the end | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM adult -- WHERE id = -1', 'adult_syn', 1e6)
== decide: a dollar quote | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = $a$it''s$a$', 'adult_syn', 1e6)
== decide: a dollar quote without end | simple 42601, direct 42601
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = $a$it''s', 'adult_syn', 1e6)
== decide: a backslash at the end | simple 42601, direct 42601
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = E''\', 'adult_syn', 1e6)
== decide: another table in Unicode escapes | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM U&"\006eotes"', 'adult_syn', 1e6)
== decide: the table in Unicode escapes | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM U&"!0061dult" UESCAPE ''!'' WHERE age > 19', 'adult_syn', 1e6)
== decide: a constant in Unicode escapes | simple ok/DP003, direct ok/DP003 | charged <=1
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = U&''\0073ecret''', 'adult_syn', 1e6)
== decide: a name in another case | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM "Adult"', 'adult_syn', 1e6)
== decide: a name with a statement in it | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM "adult; DROP TABLE adult"', 'adult_syn', 1e6)
== decide: an alias with a statement in it | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM adult AS "x; DROP TABLE adult; --" WHERE age > 21', 'adult_syn', 1e6)
== decide: another protected table | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM people', 'adult_syn', 1e6)
== decide: an unpublished table | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM notes', 'adult_syn', 1e6)
== decide: another copy | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult_far', 'adult_syn', 1e6)
== decide: a catalog | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM pg_catalog.pg_stats', 'adult_syn', 1e6)
== decide: the ledger | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM dp.ledger', 'adult_syn', 1e6)
== decide: another database | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM private.public.adult', 'adult_syn', 1e6)
== decide: a table function | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM generate_series(1, 10) adult', 'adult_syn', 1e6)
== decide: a join | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult a JOIN adult b ON a.id = b.id', 'adult_syn', 1e6)
== decide: a cross join | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult, notes', 'adult_syn', 1e6)
== decide: no relation | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*)', 'adult_syn', 1e6)
== decide: only | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM ONLY adult', 'adult_syn', 1e6)
== decide: a sample | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult TABLESAMPLE SYSTEM (1)', 'adult_syn', 1e6)
== decide: groups | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult GROUP BY sex', 'adult_syn', 1e6)
== decide: having | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult HAVING count(*) > 1999', 'adult_syn', 1e6)
== decide: limit | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult LIMIT 1', 'adult_syn', 1e6)
== decide: a lock | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult FOR UPDATE', 'adult_syn', 1e6)
== decide: into | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) INTO TEMP x FROM adult', 'adult_syn', 1e6)
== decide: a window | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) OVER () FROM adult', 'adult_syn', 1e6)
== decide: a row | simple DP003, direct DP003
SELECT dp_decide('SELECT age FROM adult', 'adult_syn', 1e6)
== decide: all of it | simple DP003, direct DP003
SELECT dp_decide('SELECT * FROM adult', 'adult_syn', 1e6)
== decide: two aggregates | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*), sum(age) FROM adult', 'adult_syn', 1e6)
== decide: an expression of an aggregate | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) + 1 FROM adult', 'adult_syn', 1e6)
== decide: max | simple DP003, direct DP003
SELECT dp_decide('SELECT max(age) FROM adult', 'adult_syn', 1e6)
== decide: string_agg | simple DP003, direct DP003
SELECT dp_decide('SELECT string_agg(city, '','') FROM adult', 'adult_syn', 1e6)
== decide: an aggregate of one's own | simple DP003, direct DP003
CREATE AGGREGATE pg_temp.count(int) (SFUNC = int4pl, STYPE = int)
---
SELECT dp_decide('SELECT pg_temp.count(age) FROM adult', 'adult_syn', 1e6)
== decide: distinct values | simple DP003/DP004/DP005, direct DP003/DP004/DP005
SELECT dp_decide('SELECT count(DISTINCT age) FROM adult', 'adult_syn', 1e6)
== decide: an update | simple DP003, direct DP003
SELECT dp_decide('UPDATE adult SET age = 1', 'adult_syn', 1e6)
== decide: explain analyze | simple DP003, direct DP003
SELECT dp_decide('EXPLAIN ANALYZE SELECT count(*) FROM adult', 'adult_syn', 1e6)
== decide: copy to a program | simple DP003, direct DP003
SELECT dp_decide('COPY adult TO PROGRAM ''cat''', 'adult_syn', 1e6)
== decide: a do block | simple DP003, direct DP003
SELECT dp_decide('DO $$ BEGIN PERFORM 1; END $$', 'adult_syn', 1e6)
== decide: a parameter in the text | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > $1', 'adult_syn', 1e6)
== decide: a volatile function | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE random() < 0.5', 'adult_syn', 1e6)
== decide: a function that waits | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE id = -1 AND pg_sleep(5) IS NULL', 'adult_syn', 1e6)
== decide: a function of one's own | simple DP003, direct DP003
CREATE FUNCTION pg_temp.tell(age int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', age; RETURN true; END $$
---
SELECT dp_decide('SELECT count(*) FROM adult WHERE pg_temp.tell(age)', 'adult_syn', 1e6)
== decide: an operator of one's own | simple DP003, direct DP003
CREATE FUNCTION pg_temp.same(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
CREATE OPERATOR pg_temp.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_temp.same)
---
SELECT dp_decide('SELECT count(*) FROM adult WHERE age OPERATOR(pg_temp.===) 37', 'adult_syn', 1e6)
== decide: a set-returning function | simple DP003, direct DP003
SELECT dp_decide('SELECT count(generate_series(1, age)) FROM adult', 'adult_syn', 1e6)
== decide: an aggregate in WHERE | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE max(age) > 3', 'adult_syn', 1e6)
== decide: a dp call in WHERE | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE dp.dp_decide(''x'', ''adult_syn'', 1)', 'adult_syn', 1e6)
== decide: a system column | simple DP003/42703, direct DP003/42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE xmin::text > ''1''', 'adult_syn', 1e6)
== decide: a place on disk | simple DP003/42703, direct DP003/42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE ctid = ''(0,1)''', 'adult_syn', 1e6)
== decide: a whole row | simple DP003/42703, direct DP003/42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE adult IS NOT NULL', 'adult_syn', 1e6)
== decide: a whole row as text | simple DP003/42703, direct DP003/42703
SELECT dp_decide('SELECT count(*) FROM adult a WHERE a::text LIKE ''%secret%''', 'adult_syn', 1e6)
== decide: a column that only the copy has | simple DP003/42703, direct DP003/42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE w > 1', 'adult_w', 1e6)
== decide: a column that nobody has | simple 42703, direct 42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE agee > 1', 'adult_syn', 1e6)
== decide: a setting | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = current_setting(''dp.secret'')', 'adult_syn', 1e6)
== decide: the name of the table in braces, twice | simple DP003/42601, direct DP003/42601
SELECT dp_decide('SELECT count(*) FROM {table}, {table}', 'adult_syn', 1e6)
== decide: braces as a statement | simple DP003/42601, direct DP003/42601
SELECT dp_decide('{table}', 'adult_syn', 1e6)
== decide: braces in a schema | simple DP003/42601, direct DP003/42601
SELECT dp_decide('SELECT count(*) FROM pg_temp.{table}', 'adult_syn', 1e6)
== decide: braces in a string | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM {table} WHERE city = ''{table}''', 'adult_syn', 1e6)
== decide: braces as a column | simple DP003/42601/42703, direct DP003/42601/42703
SELECT dp_decide('SELECT count(*) FROM adult WHERE {table} IS NOT NULL', 'adult_syn', 1e6)
== decide: too long | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE city = ''' || repeat('x', 1200000) || '''', 'adult_syn', 1e6)
== decide: too deep | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE ' || repeat('(', 5000) || 'true' || repeat(')', 5000), 'adult_syn', 1e6)
== decide: nested without end | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE ' || repeat('NOT ', 20000) || 'true', 'adult_syn', 1e6)
== decide: nothing | simple DP003, direct DP003
SELECT dp_decide('', 'adult_syn', 1e6)
== decide: NULL | simple DP003, direct DP003
SELECT dp_decide(NULL, 'adult_syn', 1e6)

-- What a row could make fail ---------------------------------------------------------------------------------------------------------------------------
== decide: a quotient | all DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE 1 / (age - 37) > 0', 'adult_syn', 1e6)
== decide: a cast of text | all DP003
SELECT dp_decide('SELECT count(*) FROM adult WHERE city::int = 1', 'adult_syn', 1e6)
== decide: a sum of a quotient | all DP003
SELECT dp_decide('SELECT sum(1 / (age - 37)) FROM adult', 'adult_syn', 1e6)
== decide: CASE with an exploding branch | all DP003
SELECT dp_decide('SELECT sum(CASE WHEN age = 36 THEN 1 / (age - 37) ELSE 0 END) FROM adult', 'adult_syn', 1e6)
== decide: a quotient that is total | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE 100 / NULLIF(age - 37, 0) > 0', 'adult_syn', 1e6, epsilon => 0.01, fresh => true)
== decide: an overflow of a row | all ok/DP003 | charged <=1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE age * 2147483647 > 0', 'adult_syn', 1e6, epsilon => 0.01, fresh => true)
== decide: a moment at the end of the calendar | all ok/DP003 | charged <=1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE date_trunc(''month'', joined) > ''2024-01-01''', 'adult_syn', 1e6, epsilon => 0.01, fresh => true)
== decide: not a number | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT sum(hours) FROM adult WHERE hours > 3', 'adult_syn', 1e9, epsilon => 0.01, fresh => true)
== decide: hostile text in LIKE | all ok/DP003 | charged <=1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE upper(city) LIKE ''%\\''', 'adult_syn', 1e6, epsilon => 0.01, fresh => true)

-- Every decider, drawn anew in every state: a bound that nothing reaches --------------------------------------------------------------------------------
== decide: LM_count | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'lm', fresh => true)
== decide: EM_count | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'em', fresh => true)
== decide: EM_count naive | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT count(*) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 60, mechanism => 'em_naive', fresh => true)
== decide: LM_sum | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT sum(age) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'lm', fresh => true)
== decide: R2T_sum | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT sum(age) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'r2t', fresh => true)
== decide: SVT_sum basic | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT sum(age) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'svt_basic', fresh => true)
== decide: SVT_sum | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT sum(age) FROM adult WHERE id < 0', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'svt', fresh => true)
== decide: EM_med | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT median(age) FROM adult WHERE age > 30', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'em', fresh => true)
== decide: LM_avg | all ok=True | charged 1 fresh
SELECT dp_decide('SELECT avg(hours) FROM adult WHERE age > 30', 'adult_syn', 1e9, epsilon => 0.01, mechanism => 'lm', fresh => true)
== decide: the public columns of a detail | all ok=2060 | charged 1 fresh
SELECT round(high), synthetic_answer, mechanism, warning, provenance FROM dp_decide_detail('SELECT count(*) FROM adult', 'adult_syn', 80, epsilon => 0.02, mechanism => 'em', fresh => true)
== decide: a plan | all ok=lm
SELECT * FROM dp_decide_plan('SELECT count(*) FROM adult WHERE age > 37', 'adult_syn', 80, epsilon => 0.01)
== decide: a plan of a forged query | all DP003
SELECT * FROM dp_decide_plan('SELECT count(*) FROM notes', 'adult_syn', 80)

-- The copy ---------------------------------------------------------------------------------------------------------------------------------------------
== copy: of another relation | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult', 'visits_syn', 1e6)
== copy: the relation itself | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult', 1e6)
== copy: a public table that is none | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'cities', 1e6)
== copy: what is not published | simple 42P01, extended 42P01, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'notes', 1e6)
== copy: a catalog | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'pg_class', 1e6)
== copy: a number | simple DP003/DP005, direct DP003/DP005
SELECT dp_decide('SELECT count(*) FROM adult', 4294967295::oid::regclass, 1e6)
== copy: NULL | simple DP003/DP005, direct DP003/DP005
SELECT dp_decide('SELECT count(*) FROM adult', NULL, 1e6)
== copy: a temporary table of its name | simple DP005, direct DP005
CREATE TEMP TABLE adult_syn (id int, age int, sex text, city text, hours numeric(6,2), joined date)
---
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 1e6)
== copy: a temporary view of its name | simple DP005, direct DP005
CREATE TEMP VIEW adult_syn AS SELECT 1 AS age
---
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 1e6)
== copy: a temporary table of the relation's name | simple ok=True, direct ok=True | charged 1
CREATE TEMP TABLE adult (id int, age int, sex text, city text, hours numeric(6,2), joined date)
---
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > 44', 'adult_syn', 1e6)
== copy: a temporary table of the relation's name, first in the path | simple ok/DP003, direct ok/DP003 | charged <=1
CREATE TEMP TABLE adult (id int, age int, sex text, city text, hours numeric(6,2), joined date)
---
SET search_path = pg_temp, public, dp
---
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > 45', 'adult_syn', 1e6)
== copy: a path of one's own | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM ledger', 'adult_syn', 1e6, path => '{dp,pg_catalog,pg_temp}')
== copy: a path without it | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult', 'public.adult_syn', 1e6, path => '{}')
== copy: a path of statements | simple DP003, direct DP003
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 1e6, path => ARRAY['public"; DROP TABLE adult; --']::name[])
== copy: written to | simple 42501, direct 42501
INSERT INTO adult_syn (id) VALUES (-1)
== copy: emptied | simple 42501, direct 42501
TRUNCATE adult_syn
== copy: dropped | simple 42809, direct 42501
DROP TABLE adult_syn

-- Numbers ----------------------------------------------------------------------------------------------------------------------------------------------
== tau: 0 | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 0)
== tau: negative | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', -1)
== tau: not a number | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 'NaN')
== tau: infinite | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 'Infinity')
== tau: next to nothing | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 1e-300)
== tau: next to everything | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 1e300)
== tau: a number of many digits | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', ('1' || repeat('0', 20000))::numeric)
== tau: the largest that there is | simple ok=True, direct ok=True | charged 1
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > 61', 'adult_syn', 1e100)
== tau: none | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn')
== tau: both | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, 5)
== percent: 0 | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', tau_percent => 0)
== percent: negative | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', tau_percent => -5)
== percent: not a number | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', tau_percent => 'NaN')
== percent: of an empty answer | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > 99', 'adult_syn', tau_percent => 5)
== percent: of an empty median | simple DP005, direct DP005
SELECT dp_decide('SELECT median(age) FROM adult WHERE age > 99', 'adult_syn', tau_percent => 5)
== percent: of an empty average | simple DP005, direct DP005
SELECT dp_decide('SELECT avg(age) FROM adult WHERE id < 0', 'adult_syn', tau_percent => 5)
== theta: 0 | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, theta => 0, mechanism => 'svt')
== theta: 1 | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, theta => 1, mechanism => 'svt')
== theta: not a number | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, theta => 'NaN', mechanism => 'svt')
== beta: 2 | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, beta => 2, mechanism => 'r2t')
== beta: next to nothing | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, beta => 1e-300, mechanism => 'r2t')
== delta: negative | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, delta => -0.1)
== delta: 1 | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, delta => 1)
== score: of one's own | simple DP005, direct DP005
SELECT dp_decide('SELECT median(age) FROM adult', 'adult_syn', 10, score => 'rank(e)', mechanism => 'em')
== largest: 0 | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, largest => 0)
== largest: not a number | simple DP005, direct DP005
SELECT dp_decide('SELECT sum(age) FROM adult', 'adult_syn', 10, largest => 'NaN')
== epsilon: 0 | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, epsilon => 0)
== epsilon: negative | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, epsilon => -1)
== epsilon: infinite | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, epsilon => 'Infinity')
== epsilon: not a number | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, epsilon => 'NaN')
== epsilon: next to nothing | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, epsilon => 1e-300)
== epsilon: more than there is | simple DP001, direct DP001
SELECT dp_decide('SELECT count(*) FROM adult WHERE age > 62', 'adult_syn', 10, epsilon => 1000)
== epsilon: a decision that is paid for, and an answer that is not | simple DP001, direct DP001
SELECT answer FROM dp_decide_detail('SELECT count(*) FROM adult WHERE age > 63', 'adult_far', 10, epsilon => 480, mechanism => 'em', fallback => true)
== rho on a pure dataset | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, rho => 0.1)
== mechanism: a statement | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, mechanism => 'lm''; DROP TABLE adult; --')
== mechanism: none of deciders | simple DP005, direct DP005
SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 10, mechanism => 'laplace')
== bound: theta of 2 | simple DP005, direct DP005
SELECT dp_bound('adult', 'age', theta => 2)
== bound: of negative values | simple DP003/DP005, direct DP003/DP005
SELECT dp_bound('adult', 'age - 50', epsilon => 0.1)
== bound: of text | simple DP003/42883, direct DP003/42883
SELECT dp_bound('adult', 'city', epsilon => 0.1)
== bound: with an exploding predicate | simple DP003, direct DP003
SELECT dp_bound('adult', 'age', '1 / (age - 37) > 0', epsilon => 0.1)

-- Requests that no function makes ----------------------------------------------------------------------------------------------------------------------
== forged: answers of the copy | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,answers}', '["0"]'))
== forged: an unknown parameter | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,parameters,seed}', '"1"'))
== forged: a policy of one's own | simple DP005, direct DP005
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,policy}', '"exact"'))
== forged: a copy without a schema | simple DP003/DP005, direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,synthetic}', '{"schema": null, "name": "adult_syn"}'))
== forged: a copy that is a list | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,synthetic}', '["public", "adult_syn"]'))
== forged: a copy with a statement for a name | simple DP003/DP005, direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,synthetic,name}', '"adult_syn; DROP TABLE adult"'))
== forged: a decision that is a list | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide}', '[]'))
== forged: a path of numbers | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{path}', '[1, {}]'))
== forged: tau as a number with an exponent | simple DP003/DP005, direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{decide,tau}', '{"a": 1}'))
== forged: a decision about groups | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{keys}', '["sex"]'))
== forged: a query beside a relation of its own | simple ok/DP003, direct ok/DP003 | charged <=1
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult WHERE age > 64', 'adult_syn', 1e6), '{from}', '{"schema": "public", "name": "notes"}')) -> 'decisions' -> 0 -> 'decision'
== forged: a query without a decision | simple DP003, direct DP003
SELECT dp.dp_query(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10) - 'decide')
== forged: a plan of a decision about groups | simple DP003, direct DP003
SELECT dp.dp_plan(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10), '{keys}', '["sex"]'))
== forged: a bound in a block | simple DP005, direct DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('adult'), '{aggregates}', '[{"function": "bound", "argument": "age", "parameters": {"theta": "0"}}]'))
== forged: an aggregate that is no aggregate, with a decision | simple DP003, direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_decide_request('SELECT count(*) FROM adult', 'adult_syn', 10) - 'query', '{aggregates}', '[{"function": "max", "argument": "age"}]'))

-- Sessions ---------------------------------------------------------------------------------------------------------------------------------------------
== session: the copy answers | proxy ok=1980, direct 42501 | charged 1
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: every aggregate | proxy ok=1980, direct 42883 | charged 1
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*), sum(age), avg(hours), median(age), count(city) FILTER (WHERE sex = 'f'), dp_low(count(*)), dp_stderr(sum(age)) FROM adult
== session: explained in public values | proxy DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
EXPLAIN SELECT sex, count(*) FROM adult GROUP BY sex
== session: rows | proxy DP002, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT * FROM adult
== session: groups | proxy DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT sex, count(*) FROM adult GROUP BY sex
== session: a join with the copy | proxy DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult JOIN adult_syn USING (id)
== session: rows of the relation that the copy misses | proxy DP002/DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult_syn s WHERE NOT EXISTS (SELECT 1 FROM adult a WHERE a.id = s.id)
== session: the relation filtered by its copy | proxy DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult WHERE id NOT IN (SELECT id FROM adult_syn WHERE id IN (SELECT id FROM adult))
== session: a quotient | proxy DP003, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult WHERE 1 / (age - 37) > 0
== session: division by what is released | proxy 22012, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false), set_config('dp.division', 'error', false)
---
SELECT 1 / (count(*) - 1980) FROM adult
== session: a median of nothing | proxy DP005, direct 42883
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5', false)
---
SELECT median(age) FROM adult WHERE id < 0
== session: no tau | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false)
---
SELECT count(*) FROM adult
== session: a tau of nothing | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '0', false)
---
SELECT count(*) FROM adult
== session: a tau that is no number | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', 'NaN%', false)
---
SELECT count(*) FROM adult
== session: a tau with a statement in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5; DROP TABLE adult', false)
---
SELECT count(*) FROM adult
== session: a long tau | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', repeat('9', 30000), false)
---
SELECT count(*) FROM adult
== session: a copy with a statement in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn; DROP TABLE adult', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy with a condition in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn WHERE false', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy that is a query | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', '(SELECT * FROM adult)', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy with a comment in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn) --', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy with a quote in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn"', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy of four names | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'a.b.c.adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a copy that is a star | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'public.*', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a long copy | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', repeat('x', 30000), false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a deep copy | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', repeat('(', 20000) || 'x' || repeat(')', 20000), false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: the relation as its copy | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a catalog as its copy | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'pg_catalog.pg_class', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: what is not published as its copy | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'public.notes', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: the copy of another | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'visits_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a temporary table of the copy's name | proxy ok=1980, direct 42501 | charged 1
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '7%', false)
---
CREATE TEMP TABLE adult_syn AS SELECT 1 AS age
---
SELECT count(*) FROM adult
== session: a temporary table of the relation's name | proxy ok=1, direct ok=1
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
CREATE TEMP TABLE adult AS SELECT 1 AS age
---
SELECT count(*) FROM adult
== session: the copy in pg_temp | proxy DP005, direct 42501
CREATE TEMP TABLE adult_syn AS SELECT 1 AS age
---
SELECT set_config('dp.synthetic', 'pg_temp.adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT count(*) FROM adult
== session: a policy with a statement in it | proxy DP005, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false), set_config('dp.synthetic_policy', 'fallback; DROP TABLE adult', false)
---
SELECT count(*) FROM adult
== session: settings of explicit calls | all ok | charged 1
SELECT set_config('dp.synthetic', 'adult; DROP TABLE adult', false), set_config('dp.tau', '-1', false), set_config('dp.synthetic_policy', 'x', false)
---
SELECT dp_count('adult', 'age > 65', epsilon => 0.001) IS NOT NULL
== session: forged settings | all DP005
SELECT dp.dp_query(jsonb_set(jsonb_set(dp.dp_count_request('adult') - 'call', '{settings,dp.synthetic}', '"adult"'), '{settings,dp.tau}', '"5%"'))
== session: settings of another type | all DP003
SELECT dp.dp_query(jsonb_set(jsonb_set(dp.dp_count_request('adult') - 'call', '{settings,dp.synthetic}', '{"a": 1}'), '{settings,dp.tau}', '5'))
== session: a function that asks | proxy DP002/DP003, direct 42501
CREATE FUNCTION pg_temp.asked() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN SET dp.synthetic = 'adult_syn'; SET dp.tau = '5%'; RETURN (SELECT count(*) FROM adult); END $$
---!
SELECT pg_temp.asked()
== session: dynamic SQL | proxy DP002, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
DO $$ BEGIN EXECUTE 'SELECT count(*) FROM ad' || 'ult'; END $$
== session: read of the copy as XML | proxy ok, direct 42501
SELECT length(query_to_xml('SELECT count(*) FROM adult_syn', true, false, '')::text)
== session: read of the relation as XML | proxy DP002, direct 42501
SELECT set_config('dp.synthetic', 'adult_syn', false), set_config('dp.tau', '5%', false)
---
SELECT query_to_xml('SELECT count(*) FROM adult', true, false, '')
