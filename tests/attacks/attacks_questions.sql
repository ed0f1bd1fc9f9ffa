-- Aggregates, keys, derived tables, views, joins and error bars, bent into oracles: the same form as attacks.sql.

-- Aggregates of every kind --------------------------------------------------------------------------------------------------------------------------
== sum | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sum(income) FROM people WHERE age > 19
== avg | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT avg(age) FROM people WHERE age > 19
== median | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM people WHERE age > 22
== stddev | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT stddev(age) FROM people WHERE age > 21
== sum of a quotient | proxy DP003, direct 42501
SELECT sum(1 / (age - 37)) FROM people
== sum of an overflow | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sum(age * 2147483647) FROM people WHERE age > 23
== sum of a big overflow | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sum(income * 99999999999999999999999999999999999999) FROM people
== sum of an undeclared column | proxy DP004, direct 42501
SELECT sum(score) FROM people
== sum of text | proxy 42883, direct 42883/42501
SELECT sum(sex) FROM people
== sum of a cast | proxy DP003, direct 42501
SELECT sum(sex::int) FROM people
== sum filtered by a quotient | proxy DP003, direct 42501
SELECT sum(age) FILTER (WHERE 1 / (age - 37) > 0) FROM people
== sums over thresholds of every group | proxy ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sex, sum(income) FILTER (WHERE income <= 20000), sum(income) FILTER (WHERE income <= 50000), sum(income) FROM people WHERE age > 24 GROUP BY sex HAVING sum(income) > 0
== sums over thresholds of every group, one by a quotient | proxy DP003, direct 42501
SELECT sex, sum(age) FILTER (WHERE age <= 20), sum(age) FILTER (WHERE age <= 30), sum(age), sum(age) FILTER (WHERE 1 / (age - 37) > 0) FROM people GROUP BY sex
== sums over thresholds of every group, of an exploding value | proxy DP003, direct 42501
SELECT sex, sum(1 / (age - 37)) FILTER (WHERE age <= 20), sum(1 / (age - 37)) FILTER (WHERE age <= 30), sum(1 / (age - 37)) FROM people GROUP BY sex
== sums over thresholds by an undeclared key | proxy DP004, direct 42501
SELECT score, sum(age) FILTER (WHERE age <= 20), sum(age) FILTER (WHERE age <= 30), sum(age) FROM people GROUP BY score
== sums of users over thresholds | proxy ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*), sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FILTER (WHERE CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END <= 1), sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FILTER (WHERE CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END <= 3), sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FROM orders WHERE placed > '2024-01-24'
== sums of users over thresholds of every group | proxy ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT status, sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FILTER (WHERE CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END <= 1), sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FILTER (WHERE CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END = 2), sum(CASE WHEN status = 'paid' THEN 4 WHEN status = 'sent' THEN 2 ELSE 1 END) FROM orders WHERE placed > '2024-01-24' GROUP BY status
== sum of CASE with an exploding branch | proxy DP003, direct 42501
SELECT sum(CASE WHEN age = 36 THEN 1 / (age - 37) ELSE 0 END) FROM people
== sum of distinct | proxy DP003, direct 42501
SELECT sum(DISTINCT age) FROM people
== avg of a row | proxy DP003/42883, direct 42501/42883
SELECT avg(people) FROM people
== sum of a constant as a count | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sum(1) FROM people WHERE age > 18
== sum of a huge constant | proxy ok/DP003/DP004/22003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT sum(99999999999) FROM people WHERE age > 18
== sum of a parameter-like setting | proxy DP003, direct 42501
SELECT sum(current_setting('x.y')::int) FROM people
== fraction from a column | proxy 42803/DP003, direct 42803/42501
SELECT percentile_cont(age / 100.0) WITHIN GROUP (ORDER BY age) FROM people
== fraction out of range | proxy DP003/DP005/22003, direct 42501/22003
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY age) FROM people
== fraction not a number | proxy DP003/DP005, direct 42501
SELECT percentile_cont('NaN') WITHIN GROUP (ORDER BY age) FROM people
== smallest by fraction 0 | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT percentile_disc(0) WITHIN GROUP (ORDER BY age) FROM people WHERE age > 33
== percentile of an array of fractions | proxy DP003, direct 42501
SELECT percentile_disc(ARRAY[0, 1]) WITHIN GROUP (ORDER BY age) FROM people
== percentile ordered by another column's row | proxy DP003, direct 42501
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY people) FROM people
== percentile of undeclared | proxy DP004, direct 42501
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY score) FROM people
== rank of a value | proxy DP003, direct 42501
SELECT rank(37) WITHIN GROUP (ORDER BY age) FROM people
== mode | proxy DP003, direct 42501
SELECT mode() WITHIN GROUP (ORDER BY sex) FROM people
== correlation | proxy DP003, direct 42501
SELECT corr(age, income) FROM people
== regression count | proxy DP003, direct 42501
SELECT regr_count(age, id) FROM people
== bit_xor | proxy DP003, direct 42501
SELECT bit_xor(age) FROM people
== any | proxy DP003, direct 42501
SELECT bool_or(age = 37) FROM people

-- Keys by expression --------------------------------------------------------------------------------------------------------------------------------
== key: date_trunc by a field that does not exist | proxy DP003/22023/DP004, direct 42501
SELECT date_trunc('fortnight', joined), count(*) FROM people GROUP BY 1
== key: date_trunc by a column | proxy DP003/DP004, direct 42501
SELECT date_trunc(sex, joined), count(*) FROM people GROUP BY 1
== key: extract of a field that does not exist | proxy DP003/22023/DP004, direct 42501/22023
SELECT extract(nonsense FROM joined), count(*) FROM people GROUP BY 1
== key: a date shifted by another column | proxy DP003/DP004, direct 42501
SELECT joined - age, count(*) FROM people GROUP BY 1
== key: a date shifted by more than 10,000 years | proxy DP003, direct 42501
SELECT joined + 100000000, count(*) FROM people GROUP BY 1
== key: width_bucket with equal bounds | proxy DP003/DP004/DP005/2201G, direct 42501
SELECT width_bucket(age, 5, 5, 10), count(*) FROM people GROUP BY 1
== key: width_bucket with bounds from rows | proxy DP003/DP004/DP005, direct 42501
SELECT width_bucket(age, 37, age, 10), count(*) FROM people GROUP BY 1
== key: width_bucket with count from rows | proxy DP003/DP004/DP005, direct 42501
SELECT width_bucket(income, 0, 10, age - 37), count(*) FROM people GROUP BY 1
== key: width_bucket with too many | proxy DP003/DP004/DP005, direct 42501
SELECT width_bucket(age, 0, 100, 2000000000), count(*) FROM people GROUP BY 1
== key: CASE that divides | proxy DP003/DP004, direct 42501
SELECT CASE WHEN age > 50 THEN 1 / (age - 37) ELSE 2 END, count(*) FROM people GROUP BY 1
== key: quotient | proxy DP003/DP004, direct 42501
SELECT 100 / (age - 37), count(*) FROM people GROUP BY 1
== key: modulo | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT age % 10, count(*) FROM people GROUP BY 1
== key: text of a number | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT age::text, count(*) FROM people GROUP BY 1
== key: upper of undeclared spelling | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT upper(city), count(*) FROM people GROUP BY 1
== key: undeclared in CASE | proxy DP003/DP004, direct 42501
SELECT CASE WHEN score > 1 THEN 'a' ELSE 'b' END, count(*) FROM people GROUP BY 1
== key: CASE with values of the column itself | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT CASE WHEN age > 50 THEN city ELSE 'none' END, count(*) FROM people GROUP BY 1
== key: boolean over a quotient | proxy DP003/DP004, direct 42501
SELECT 1 / (age - 37) > 0, count(*) FROM people GROUP BY 1
== key: a date after another | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT joined > '2024-03-05', count(*) FROM people GROUP BY 1

-- Distinct, derived tables, CTEs --------------------------------------------------------------------------------------------------------------------
== distinct expression | proxy ok, direct 42501/22012
SET dp.epsilon = 0.01
---
SELECT DISTINCT age / 0 FROM people
== distinct of an undeclared column | proxy DP004, direct 42501
SELECT DISTINCT score FROM people
== distinct of a derived table's expression | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT DISTINCT x FROM (SELECT 1 / (age - 37) AS x FROM people) p
== derived table that divides, unread | proxy DP003/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM (SELECT 1 / (age - 37) AS x, age FROM people) p WHERE age > 23
== derived table that divides, read | proxy DP003, direct 42501
SELECT count(x) FROM (SELECT 1 / (age - 37) AS x FROM people) p
== derived table with a leaky function, unread | proxy ok/DP003, direct 42501 | charged <=1
CREATE FUNCTION pg_temp.tell(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN $1; END $$
---
SELECT count(*) FROM (SELECT pg_temp.tell(age) AS x, age FROM people) p WHERE age > 79
== derived table with LIMIT | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT * FROM people ORDER BY income DESC LIMIT 1) p WHERE age = 37
== derived table with OFFSET | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT * FROM people OFFSET 5) p
== derived table with a window | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY age) AS n FROM people) p WHERE n = 1
== derived table that multiplies rows | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT generate_series(1, 1000000) FROM people) p
== derived table that multiplies rows by unnest | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT unnest(ARRAY[1, 2, 3]) AS u, age FROM people) p
== derived union of rows | proxy DP003/DP002, direct 42501
SELECT count(*) FROM (SELECT age FROM people UNION ALL SELECT age FROM people) p
== derived distinct on | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT DISTINCT ON (age) * FROM people) p
== derived table for update | proxy DP003, direct 42501
SELECT count(*) FROM (SELECT * FROM people FOR UPDATE) p
== derived table with its own name for a column | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM (SELECT age AS sex, sex AS age FROM people) p WHERE sex > 24
== CTE materialized of rows | proxy ok/DP003/DP002, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
WITH p AS MATERIALIZED (SELECT * FROM people WHERE age > 25) SELECT count(*) FROM p
== CTE of rows read twice | proxy DP003/ok, direct 42501 | charged <=2
SET dp.epsilon = 0.01
---
WITH p AS (SELECT * FROM people WHERE age > 26) SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM p WHERE sex = 'f')
== CTE of rows, also shown | proxy DP002/DP003, direct 42501
WITH p AS (SELECT * FROM people) SELECT count(*), (SELECT max(age) FROM p) FROM p
== CTE of rows, shown | proxy DP002, direct 42501
WITH p AS (SELECT * FROM people) SELECT * FROM p
== CTE of rows joined with itself | proxy DP003, direct 42501
WITH p AS (SELECT * FROM people) SELECT count(*) FROM p a JOIN p b ON a.id = b.id
== CTE of rows in a recursive one | proxy DP002/DP003, direct 42501
WITH RECURSIVE p AS (SELECT * FROM people), r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, p WHERE n < 3) SELECT count(*) FROM r
== CTE of rows behind search | proxy DP002/DP003/42601, direct 42501/42601
WITH RECURSIVE p AS (SELECT id, age FROM people UNION ALL SELECT id, age FROM p WHERE false) SEARCH DEPTH FIRST BY id SET o SELECT count(*) FROM p

-- Views ---------------------------------------------------------------------------------------------------------------------------------------------
== published view counts | proxy ok/DP002/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM adults WHERE age > 27
== published view shown | proxy DP002, direct 42501
SELECT * FROM adults
== published view, its hidden column | proxy 42703, direct 42703/42501
SELECT count(*) FROM adults WHERE income > 1
== published view, system column | proxy 42703/DP003, direct 42703/42501
SELECT count(*) FROM adults WHERE ctid IS NOT NULL
== published view shadowed | proxy ok=7, direct ok=7
CREATE TEMP VIEW adults AS SELECT 7 AS age
---
SELECT age FROM adults
== base table shadowed, published view over it | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
CREATE TEMP TABLE people AS SELECT 99 AS id, 99 AS age, 'f' AS sex, 'x' AS city
---
SELECT count(*) FROM adults WHERE age > 28

-- Joins and semi-joins ------------------------------------------------------------------------------------------------------------------------------
== join with a public table on its key | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people JOIN cities c ON c.name = people.city WHERE c.size > 1
== join with a public table without a key multiplies | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN visits_of v ON v.city = people.city
== join with a public table on another column | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON c.region = people.city
== join with a public table on an inequality | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON c.name <= people.city
== join with a public table on key or anything | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON c.name = people.city OR true
== cross join with a public table | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people, cities
== join with a public table on an expression | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON lower(c.name) = lower(people.city)
== join with a public table on key is not distinct | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON c.name IS NOT DISTINCT FROM people.city
== join with a public table, then again without a key | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people JOIN cities c ON c.name = people.city JOIN visits_of v ON v.city = c.name
== left join | proxy DP003, direct 42501
SELECT count(*) FROM people LEFT JOIN cities c ON c.name = people.city
== natural join by a common name | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people NATURAL JOIN visits_of
== key from a public table | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT c.region, count(*) FROM people JOIN cities c ON c.name = people.city GROUP BY 1
== semi-join with a public table | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE city IN (SELECT name FROM cities WHERE size > 2)
== semi-join with a quotient of a row inside | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE EXISTS (SELECT FROM cities c WHERE c.name = people.city AND 1 / (people.age - 37) > 0)
== semi-join with a quotient of the public row | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE city IN (SELECT name FROM cities WHERE 1 / (size - 3) > 0)
== semi-join with a function of one's own | proxy DP003, direct 42501
CREATE FUNCTION pg_temp.tell(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
SELECT count(*) FROM people WHERE EXISTS (SELECT FROM cities c WHERE pg_temp.tell(people.age))
== semi-join with a protected relation | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE id IN (SELECT customer_id FROM orders)
== semi-join two deep | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE EXISTS (SELECT FROM cities c WHERE EXISTS (SELECT FROM cities d WHERE d.name = people.city))
== not in with nulls | proxy ok/DP003, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM people WHERE city NOT IN (SELECT name FROM cities WHERE size > 100)
== any of a public table by another operator | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE age > ANY (SELECT size FROM cities)
== scalar sub-query of a public table | proxy DP003, direct 42501
SELECT count(*) FROM people WHERE age > (SELECT max(size) FROM cities)
== public table shadowed by a temporary one in IN | proxy DP003, direct 42501
CREATE TEMP TABLE cities AS SELECT 'north' AS name
---
SELECT count(*) FROM people WHERE city IN (SELECT name FROM cities)
== the foreign table's server side | proxy ok, direct 42501
SELECT count(*) FROM cities WHERE name > ''
== a leaky function over a public table | proxy ok, direct 42501
CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
SELECT count(*) FROM cities WHERE pg_temp.tell(name)
== write to a public table | proxy 42501, direct 42501
INSERT INTO cities VALUES ('x', 'x', 1)
== foreign-key join | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.segment = 'home'
== foreign-key join of three | proxy ok/DP003/DP004, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM items i JOIN orders o ON o.id = i.order_id JOIN customers c ON c.id = o.customer_id
== join of the unit with itself | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id
== join of units on another column | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM orders a JOIN orders b ON a.status = b.status
== join of two datasets | proxy DP003/DP004, direct 42501
SELECT count(*) FROM people p JOIN customers c ON c.id = p.id
== join of children of two parents | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM items i JOIN orders o ON o.id <> i.order_id
== natural join of children | proxy DP003/DP004/ok, direct 42501 | charged <=1
SET dp.epsilon = 0.01
---
SELECT count(*) FROM customers NATURAL JOIN orders

-- Error bars ----------------------------------------------------------------------------------------------------------------------------------------
== error bars of a value that was not released | proxy DP003, direct 42501/42883/DP003
SELECT dp_low(max(age)), dp_high(count(*)) FROM people
== error bars of nothing | proxy DP003/42883, direct 42501/42883/DP003
SELECT dp_low(5)
== error bars of a column | proxy DP002/DP003/42803/42883, direct 42501/42883/42803
SELECT dp_stderr(age) FROM people
== error bars with FILTER | proxy 42809/DP003, direct 42501/42883/42809
SELECT dp_low(count(*)) FILTER (WHERE age > 1) FROM people
== error bars of what was released | proxy ok, direct 42501/42883 | charged <=1
SET dp.epsilon = 0.01
---
SELECT dp_low(count(*)) <= count(*), dp_stderr(count(*)) > 0 FROM people WHERE age > 34
