-- The guided session, as alice, through the proxy. Blocks are separated by empty lines. "--@" says what must come back:
-- ok with the number of rows, or the SQLSTATE of a refusal; `make demo` fails when something else does.

-- Alice is connected to the proxy with plain psql. What she sees is an ordinary table: its columns and types, not one row.
--@ ok
\d adult

-- What she may spend. Every answer about these people is paid for from this budget, before it leaves.
--@ ok rows>=1
SELECT * FROM dp.budget;

-- A count. It costs epsilon 0.1 (the dataset's default), and the noise is a few people in tens of thousands.
--@ ok rows=1
SELECT count(*) FROM adult WHERE age >= 40;

-- The same for every group of a declared domain, in one scan and for one price: a person is in one group only.
-- HAVING, ORDER BY and arithmetic work on the released numbers; they cost nothing.
--@ ok rows>=1
SELECT education, count(*) AS people
FROM adult WHERE hours_per_week > 40
GROUP BY education ORDER BY people DESC;

-- The price and the expected error, before spending anything.
--@ ok
EXPLAIN SELECT sex, income, count(*) FROM adult GROUP BY sex, income;

-- She may choose what a statement costs.
--@ ok
SET dp.epsilon = 0.5;

-- A dearer answer has less noise.
--@ ok rows=4
SELECT sex, income, count(*) FROM adult GROUP BY sex, income ORDER BY sex, income;

-- The budget went down, by exactly what the answers cost.
--@ ok rows>=1
SELECT * FROM dp.budget;

-- Rows are private. This is refused, and costs nothing.
--@ DP002
SELECT * FROM adult LIMIT 5;

-- So is a question whose error message would tell whether somebody is 37.
--@ DP003
SELECT count(*) FROM adult WHERE 1 / (age - 37) > 0;

-- A statement that costs more than she has left is refused, too: nothing is charged, nothing is said about the rows.
--@ DP001
SELECT count(*) FROM adult WHERE age < 30 AND education = 'Doctorate';
