-- The guided session, through the proxy. Blocks are separated by empty lines; "--" explains. What must come back is in
-- "--@": ok with the number of rows, or the SQLSTATE of a refusal; in "--@showing": a regular expression. "--@as" says who
-- asks, from there on; "--@same" that the statement must get the answer it got before. `make demo` fails when anything else happens.

-- Alice is connected to the proxy with plain psql. What she sees is an ordinary table: its columns and types, not one row.
--@ ok
--@as alice
--@showing hours_per_week *\| integer
\d adult

-- What she may spend: epsilon 1 of the 4 that all questions together have (1 went into a synthetic copy of the table). Every answer about these people is paid for
-- from this budget, before it leaves.
--@ ok rows=1
--@showing people .*\| +1 \| +1 \| +[0-9.]+ \|
SELECT * FROM dp.budget;

-- A count. It costs epsilon 0.1, the dataset's default; a NOTICE tells the price and the error. In truth it is 21,398.
--@ ok rows=1
--@showing epsilon 0.9 left
SELECT count(*) FROM adult WHERE age >= 40;

-- The same question again gets the same answer, for nothing.
--@ ok rows=1
--@same answer
SELECT count(*) FROM adult WHERE age >= 40;

-- One count for each group of a declared domain, in one scan and for one price: a person is in one group only.
-- HAVING, ORDER BY and arithmetic work on the released numbers, and cost nothing.
--@ ok rows=16
--@showing epsilon 0.8 left
SELECT education, count(*) AS people, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent
FROM adult WHERE hours_per_week > 40
GROUP BY education ORDER BY people DESC;

-- Averages, medians and sums, by any expression whose groups follow from the declarations, with their error bars as
-- columns. Values are clamped to the declared bounds: nothing is read off the rows.
--@ ok rows=2
--@showing epsilon 0.7 left
SELECT CASE WHEN age < 40 THEN 'under 40' ELSE '40 and over' END AS group_of_age,
       round(avg(hours_per_week), 1) AS hours, round(dp_low(avg(hours_per_week)), 1) AS low, round(dp_high(avg(hours_per_week)), 1) AS high
FROM adult GROUP BY 1;

-- Do people of 40 and over work longer hours, or is that the noise? After a GROUP BY, for nothing: an interval that holds
-- the true difference, whichever two groups are compared.
--@ ok rows=1
--@showing yes
SELECT * FROM dp_compare('40 and over', 'under 40');

-- The price and the expected error, before spending anything.
--@ ok
--@showing discrete Laplace
EXPLAIN SELECT sex, income, count(*) FROM adult GROUP BY sex, income;

-- She may choose what a statement costs.
--@ ok
SET dp.epsilon = 0.5;

-- A dearer answer has less noise.
--@ ok rows=4
--@showing epsilon 0.2 left
SELECT sex, income, count(*) FROM adult GROUP BY sex, income ORDER BY sex, income;

-- The budget went down, by exactly what the answers cost.
--@ ok rows=1
--@showing people .*\| +1 \| +0.2 \|
SELECT * FROM dp.budget;

-- Rows are private. This is refused, and costs nothing.
--@ DP002
SELECT * FROM adult LIMIT 5;

-- So is a question whose error message would tell whether somebody is 37.
--@ DP003
SELECT count(*) FROM adult WHERE 1 / (age - 37) > 0;

-- A statement that costs more than she has left is refused: nothing is charged, and nothing is said about the rows.
--@ DP001
SELECT count(*) FROM adult WHERE age < 30 AND education = 'Doctorate';

-- The refusals cost nothing.
--@ ok rows=1
--@showing people .*\| +1 \| +0.2 \|
SELECT * FROM dp.budget;

-- Bob has a budget of his own. What was answered before is free for him, too: it is no secret any more.
--@ ok rows=1
--@same answer
--@as bob
SELECT count(*) FROM adult WHERE age >= 40;

-- His budget is untouched.
--@ ok rows=1
--@showing people .*\| +0.5 \| +0.5 \|
SELECT * FROM dp.budget;

-- The owner had a synthetic copy made. Its rows are nobody's, and any SQL over it is free.
--@ ok rows=1
--@showing count
SELECT count(*), min(age), max(age) FROM adult_syn WHERE education = 'Masters';

-- Is such an answer near the private one? For a small price a decision tells: here, within 10 %.
--@ ok
SET dp.synthetic = 'adult_syn';

-- (Absolute bounds have no percent sign.)
--@ ok
SET dp.tau = '10%';

-- Ordinary SQL is now answered from the copy, and the NOTICE says whether it is near enough.
--@ ok rows=1
--@showing distance bound (satisfied|unmet).*epsilon 0.4 left|epsilon 0.4 left.*distance bound (satisfied|unmet)
SELECT count(*) FROM adult WHERE age >= 40 AND income = '>50K';

-- The same by function, with everything that may be said of it; a median this time.
--@ ok rows=1
--@showing Hist_med
SELECT decision, mechanism, synthetic_answer, low, high, epsilon
FROM dp.dp_decide_detail('SELECT median(age) FROM adult', synthetic => 'adult_syn', tau => 3);

-- Turbo: many counts, each to within 2 % of the table, for little. The owner enabled it for three columns.
--@ ok
RESET dp.synthetic;

-- (With probability 0.999 each.)
--@ ok
SET dp.alpha = 0.02; SET dp.beta = 0.001;

-- Sixteen groups at once cost less than a hundredth of epsilon.
--@ ok rows=16
--@showing turbo, epsilon 0.00
SELECT education, count(*) FROM adult WHERE income = '>50K' GROUP BY education ORDER BY count(*) DESC;

-- What was answered before is free, and so is what follows from it.
--@ ok rows=1
--@showing free
SELECT count(*) FROM adult WHERE income = '>50K' AND education = 'Masters';
