-- Families of queries, bent into oracles: the same form as attacks.sql.

== release, a family of counts | all ok | charged <=1
SELECT * FROM dp_release_numeric('f1', 'SELECT count(*) FROM people WHERE sex = $1 AND age > -81', '{f,m}', epsilon => 0.01)
== release, sums of both signs | all ok | charged <=1
SELECT * FROM dp_release_numeric('f2', 'SELECT sum(CASE WHEN sex = ''f'' THEN age ELSE 0 - age END) FROM people WHERE sex <> $1 AND age > -71', '{f,m}', epsilon => 0.01)
== release, by Algorithm 2 | all ok | charged <=1
SELECT * FROM dp_release_numeric('f9', 'SELECT count(*) FROM people WHERE sex = $1 AND age > -61', '{f,m}', epsilon => 0.01, mechanism => 'alg2')
== release, by composition | all ok | charged <=1
SELECT * FROM dp_release_numeric('f11', 'SELECT sum(age) FROM people WHERE sex = $1 AND age > -51', '{f,m}', epsilon => 0.01, mechanism => 'composition')
== release, by composition and as a table | all DP005 | charged 0
SELECT * FROM dp_release_numeric('f12', 'SELECT sum(age) FROM people WHERE sex = $1', '{f}', epsilon => 0.01, mechanism => 'composition', publish => true)
== release, by normalisation | all ok | charged <=1
SELECT * FROM dp_release_numeric('f13', 'SELECT sum(age) FROM people WHERE sex = $1 AND age > -41', '{f,m}', epsilon => 0.01, mechanism => 'normalisation')
== release, by global truncation | all ok | charged <=1
SELECT * FROM dp_release_numeric('f14', 'SELECT sum(age) FROM people WHERE sex = $1 AND age > -31', '{f,m}', epsilon => 0.01, mechanism => 'global')
== release, a number of rounds that reads rows | all DP005 | charged 0
SELECT * FROM dp_release_numeric('f15', 'SELECT sum(age) FROM people WHERE sex = $1', '{f}', epsilon => 0.01, mechanism => 'global', options => '{"rounds": "(SELECT max(age) FROM people)"}')
== release, by ranges | all ok | charged <=1
SELECT * FROM dp_release_numeric('f16', 'SELECT count(*) FROM people WHERE age >= $1 AND age > -21', '{0,1}', epsilon => 0.01, mechanism => 'range')
== release, by ranges of what is none | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f17', 'SELECT count(*) FROM people WHERE age <> $1', '{37}', epsilon => 0.01, mechanism => 'range')
== release, options that are code | all DP005 | charged 0
SELECT * FROM dp_release_numeric('f10', 'SELECT count(*) FROM people WHERE sex = $1', '{f}', epsilon => 0.01, mechanism => 'alg2', options => '{"rounds": "(SELECT max(age) FROM people)"}')
== release, a grid that reads rows | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f3', 'SELECT count(*) FROM people WHERE age = $1', ARRAY['(SELECT max(age) FROM people)'], epsilon => 0.01)
== release, a constant that reads rows | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f4', 'SELECT count(*) FROM people WHERE age IN ($1, (SELECT max(age) FROM people))', '{20}', epsilon => 0.01)
== release, a query that divides by a value | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f5', 'SELECT count(*) FROM people WHERE 1 / (age - 37) = $1', '{20}', epsilon => 0.01)
== release, by weights | all ok | charged <=1
SELECT * FROM dp_release_numeric('f18', 'SELECT sum(CASE WHEN sex = $1 THEN 1 ELSE 0.5 END * age) FROM people WHERE age > -11', '{f,m}', epsilon => 0.01)
== release, a weight that reads rows | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f19', 'SELECT sum((SELECT max(age) / $1 FROM people) * age) FROM people WHERE sex = ''f''', '{1000}', epsilon => 0.01)
== release, a weight of what is no class | all DP003/DP004 | charged 0
SELECT * FROM dp_release_numeric('f20', 'SELECT sum(score / $1 * age) FROM people', '{1000}', epsilon => 0.01)
== release, a weight that divides by a value | all DP003/DP005 | charged 0
SELECT * FROM dp_release_numeric('f21', 'SELECT sum(1 / (age - $1) * age) FROM people', '{37}', epsilon => 0.01)
== release, a weight of code | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f22', 'SELECT sum(pg_sleep($1) * age) FROM people', ARRAY['1); DROP TABLE people; --'], epsilon => 0.01)
== release, a query that closes the statement | all DP003 | charged 0
SELECT * FROM dp_release_numeric('f6', 'SELECT count(*) FROM people WHERE sex = $1; SELECT * FROM people', '{f}', epsilon => 0.01)
== release, a grid of a quote | all ok/DP003 | charged <=1
SELECT * FROM dp_release_numeric('f7', 'SELECT count(*) FROM people WHERE sex = $1 AND age > -91', ARRAY['f'' OR true --', 'f\"},{', E'\\'], epsilon => 0.01)
== release, a column without a domain | all DP003/DP004 | charged 0
SELECT * FROM dp_release_numeric('f8', 'SELECT count(*) FROM people WHERE score = $1', '{1}', epsilon => 0.01)
== release, a name that is none | all DP005 | charged 0
SELECT * FROM dp_release_numeric('people"; DROP TABLE people; --', 'SELECT count(*) FROM people WHERE sex = $1', '{f}', epsilon => 0.01)
== release, steps of others | proxy 42P01, direct 42501 | charged 0
SELECT released FROM dp.draft
== release, its table of names | proxy 42P01, direct 42501 | charged 0
SELECT * FROM dp.family
== release, a name taken away | proxy 42883/42501, direct 42501 | charged 0
CALL dp.drop_family('people', 'f1')
== release, a grid that others read | proxy 42P01, direct 42501 | charged 0
SELECT * FROM dp.family_answer
== release, published by nobody's leave | proxy 42883/42501, direct 42501 | charged 0
SELECT dp._publish_release(gen_random_uuid(), 'alice', 'f1', true, '{}', '[]')
== release, published under a hostile name | all DP005 | charged 0
SELECT * FROM dp_release_numeric('x"; DROP SCHEMA dp_release CASCADE; --', 'SELECT count(*) FROM people WHERE sex = $1', '{f}', epsilon => 0.01, publish => true)
== release, a grid of another analyst's | all ok=0 | charged 0
SELECT count(*) FROM dp.release_answers WHERE NOT yours
