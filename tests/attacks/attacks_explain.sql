-- Explanations of differences, bent into oracles: the same form as attacks.sql. What noise decides is asked once: the
-- grouped answer is stored in the first state, and the verdict on it is the same in all of them.

== explain, all of it | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', k => 3, epsilon => 0.01, anyway => true)
== explain, pairs of values, of averages | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{avg(age)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', k => 2, l => 2, epsilon => 0.01, anyway => true)
== explain, attribute that is a sub-query | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', attributes => ARRAY['(SELECT max(age) FROM people)'], anyway => true, epsilon => 0.01)
== explain, attribute that closes the list | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', attributes => ARRAY['age") + (SELECT 1'], anyway => true, epsilon => 0.01)
== explain, attribute that divides | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', attributes => ARRAY['1 / (age - 37)'], anyway => true, epsilon => 0.01)
== explain, a column without a domain | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', attributes => '{score}', anyway => true, epsilon => 0.01)
== explain, a column of another relation | all 42703/42P01/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', attributes => '{customers.name}', anyway => true, epsilon => 0.01)
== explain, left out by a row | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', leave_out => ARRAY['(SELECT city FROM people LIMIT 1)'], anyway => true, epsilon => 0.01)
== explain, a group of a row | proxy DP003, direct 42501
SELECT * FROM dp_explain_difference((SELECT sex FROM people WHERE age = 37 LIMIT 1), 'm', anyway => true, epsilon => 0.01)
== explain, for each row | proxy DP002/DP003, direct 42501
SELECT * FROM people, dp_explain_difference(people.sex, 'm', anyway => true, epsilon => 0.01)
== explain, a group with quotes | all DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f'' OR true --', 'm', anyway => true, epsilon => 0.01)
== explain, a release of nobody's | all 42501
SELECT * FROM dp_explain_difference('f', 'm', release => '00000000-0000-0000-0000-000000000000', epsilon => 0.01)
== explain, k beyond everything | all DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', k => 2147483647, anyway => true, epsilon => 0.01)
== explain, l beyond everything | all DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', l => 2147483647, anyway => true, epsilon => 0.01)
== explain, budget NaN | all DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', anyway => true, epsilon => 'NaN')
== explain, options from hell | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---!
SELECT * FROM dp_explain_difference('f', 'm', anyway => true, epsilon => 0.01, options => '{"split": [1e308, -1e308, 0]}')
---!
SELECT * FROM dp_explain_difference('f', 'm', anyway => true, epsilon => 0.01, options => '{"lower": "NaN"}')
---!
SELECT * FROM dp_explain_difference('f', 'm', anyway => true, epsilon => 0.01, options => '[]')
== explain, weights without end | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('{f,m}', weights => '{NaN,1}', anyway => true, epsilon => 0.01)
== explain, a predicate forged beside it | all DP003/DP005/42501/ok | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT dp_query(jsonb_set(dp_explain_difference_request('f', 'm', anyway => true, epsilon => 0.011), '{where}', '"1 / (age - 37) = 1"')) -> 'explain'
== explain, a predicate that divides | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', predicates => ARRAY['1 / (age - 37) = 1'], anyway => true, epsilon => 0.01)
== explain, a predicate that reads | all DP003/DP005/42501 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', predicates => ARRAY['age = (SELECT max(age) FROM people)'], anyway => true, epsilon => 0.01)
== explain, a predicate that closes the list | all DP003/DP005/42601 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', predicates => ARRAY['true THEN 0 END]) FROM people --'], anyway => true, epsilon => 0.01)
== explain, a predicate of one row | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('f', 'm', k => 1, predicates => ARRAY['age = 37 AND city = ''%'''], anyway => true, epsilon => 0.01)
== explain an expression | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('{f,m}', expression => 'o1 / o2', k => 2, epsilon => 0.01, anyway => true)
== explain an expression that divides by nothing | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{avg(age)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('{f,m}', expression => '1 / (o1 - o1) + o2 / 0', k => 1, epsilon => 0.01, anyway => true)
== explain an expression that overflows | all ok/DP005 | charged <=2
SELECT * FROM dp_group_by('people', '{sex}', '{avg(age)}', 'age > -7', epsilon => 0.01)
---
SELECT * FROM dp_explain_difference('{f,m}', expression => 'o1 * 100000000000000000000000000000000000000000000000000 * 100000000000000000000000000000000000000000000000000 * o2 / o1', k => 1, epsilon => 0.01, anyway => true)
== explain an expression with a query | all DP003/DP005 | charged <=1
SELECT * FROM dp_group_by('people', '{sex}', '{count(*)}', 'age > -7', epsilon => 0.01)
---!
SELECT * FROM dp_explain_difference('{f,m}', expression => '(SELECT max(age) FROM people)', anyway => true, epsilon => 0.01)
---!
SELECT * FROM dp_explain_difference('{f,m}', expression => 'age', anyway => true, epsilon => 0.01)
---!
SELECT * FROM dp_explain_difference('{f,m}', expression => 'o9', anyway => true, epsilon => 0.01)
