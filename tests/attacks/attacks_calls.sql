-- Parameters of the dp_* functions and forged joins, bent into oracles and unbounded sensitivities: the same form as attacks.sql.

== dp_sum, argument that divides | all DP003
SELECT dp_sum('people', '1 / (age - 37)', lower => 0, upper => 1)
== dp_sum, argument that is a sub-query | all DP003
SELECT dp_sum('people', '(SELECT max(age) FROM people)', lower => 0, upper => 1)
== dp_sum, argument that closes the call | all DP003
SELECT dp_sum('people', 'age) + (SELECT 1', lower => 0, upper => 1)
== dp_sum, argument with a comment | all DP003/ok | charged <=1
SELECT dp_sum('people', 'age -- )', 'age > 20', epsilon => 0.01)
== dp_sum of an undeclared column with bounds of one's own | all DP004/ok | charged <=1
SELECT dp_sum('people', 'score', lower => 0, upper => 1, epsilon => 0.01)
== dp_sum, bounds reversed | all DP005
SELECT dp_sum('people', 'age', lower => 5, upper => 1)
== dp_sum, bounds NaN | all DP005
SELECT dp_sum('people', 'age', lower => 'NaN', upper => 1)
== dp_sum, bounds infinite | all DP005
SELECT dp_sum('people', 'age', lower => 0, upper => 'Infinity')
== dp_sum, bounds huge | all DP003/DP004/DP005/ok | charged <=1
SELECT dp_sum('people', 'age', 'age > 21', lower => -1e308, upper => 1e308, epsilon => 0.01)
== dp_sum, bounds tiny | all DP003/DP004/DP005/ok | charged <=1
SELECT dp_sum('people', 'age', 'age > 22', lower => 0, upper => 5e-324, epsilon => 0.01)
== dp_sum, bounds equal: a value known beforehand | all DP003/DP005/ok | charged <=1
SELECT dp_sum('people', 'age', 'age > 23', lower => 7, upper => 7, epsilon => 0.01)
== dp_sum, one bound only | all DP004/DP005/ok | charged <=1
SELECT dp_sum('people', 'age', 'age > 24', lower => 7, epsilon => 0.01)
== dp_sum, resolution zero | all DP005
SELECT dp_sum('people', 'age', resolution => 0)
== dp_sum, resolution negative | all DP005
SELECT dp_sum('people', 'age', resolution => -1)
== dp_sum, resolution NaN | all DP005
SELECT dp_sum('people', 'age', resolution => 'NaN')
== dp_sum, resolution beyond a float | all DP003/DP005/ok | charged <=1
SELECT dp_sum('people', 'age', 'age > 25', resolution => 1e-300, epsilon => 0.01)
== dp_sum, contribution zero | all DP003/DP005
SELECT dp_sum('items', 'price', max_contribution => 0, lower => 0, upper => 9)
== dp_sum, contribution negative | all DP003/DP005
SELECT dp_sum('items', 'price', max_contribution => -5, lower => 0, upper => 9)
== dp_sum, contribution NaN | all DP003/DP005
SELECT dp_sum('items', 'price', max_contribution => 'NaN', lower => 0, upper => 9)
== dp_sum, contribution smaller than one value: what is above is cut | all ok/DP003/DP004/DP005 | charged <=1
SELECT dp_sum('items', 'price', max_contribution => 0.5, lower => 0, upper => 90, resolution => 0.01, epsilon => 0.01)
== dp_sum of text | all DP003/42883
SELECT dp_sum('people', 'sex', lower => 0, upper => 1)
== dp_sum of a date | all DP003/42883
SELECT dp_sum('people', 'joined', lower => 0, upper => 1)
== dp_sum of a row | all DP003
SELECT dp_sum('people', 'people', lower => 0, upper => 1)
== dp_sum of nothing | all DP003/DP005
SELECT dp_sum('people', NULL)
== dp_sum_r2t on a dataset of rows | all DP003/DP005/ok | charged <=1
SELECT dp_sum_r2t('people', 'age', 'age > 26', epsilon => 0.01)
== dp_sum_r2t with base one | all DP003/DP005
SELECT dp_sum_r2t('items', 'price', lower => 0, upper => 9, base => 1)
== dp_sum_r2t with beta one | all DP003/DP005
SELECT dp_sum_r2t('items', 'price', lower => 0, upper => 9, beta => 1)
== dp_sum_r2t with an endless ladder | all DP003/DP004/DP005
SELECT dp_sum_r2t('items', 'price', lower => 0, upper => 9, base => 1.0000001)
== dp_quantile, fraction NaN | all DP003/DP005
SELECT dp_quantile('people', 'age', 'NaN')
== dp_quantile, fraction two | all DP003/DP005
SELECT dp_quantile('people', 'age', 2)
== dp_quantile of a wide domain | all DP003/DP004/DP005/ok | charged <=1
SELECT dp_quantile('people', 'income', 0.5, 'age > 27', epsilon => 0.01)
== dp_quantile with a lattice without end | all DP003/DP004/DP005/ok | charged <=1
SELECT dp_quantile('people', 'score', 0.5, lower => 0, upper => 1e18, epsilon => 0.01)
== dp_estimate of SQL | all DP003
SELECT dp_estimate('people', 'count(*) FROM people; SELECT 1')
== dp_estimate of max | all DP003
SELECT dp_estimate('people', 'max(age)')
== dp_estimate of a sub-query | all DP003
SELECT dp_estimate('people', 'sum((SELECT 1))')
== dp_group_by: sum of a quotient | all DP003
SELECT * FROM dp_group_by('people', '{sex}', ARRAY['sum(1 / (age - 37))'])
== dp_group_by: a key twice | all ok/DP003/DP005 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex,sex}', predicate => 'age > 28', epsilon => 0.01)
== dp_group_by: no keys | all ok/DP003/DP005 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{}', predicate => 'age > 29', epsilon => 0.01)
== dp_group_by: a key that is NULL | all DP003/DP005
SELECT * FROM dp_group_by('people', ARRAY[NULL, 'sex'])
== dp_group_by: a thousand aggregates | all DP003/DP005/DP001
SELECT count(*) FROM dp_group_by('people', '{sex}', array_fill('count(*)'::text, ARRAY[5000]))
== join of a relation that is not published | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "notes", "alias": "n", "on": "n.id = people.id"}]}')
== join of the ledger | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "dp", "name": "ledger", "alias": "n", "on": "true"}]}')
== join of a catalog | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "pg_catalog", "name": "pg_class", "alias": "n", "on": "true"}]}')
== join on nothing | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": null}]}')
== join on true | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "true"}]}')
== join on the key or anything | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "c.name = people.city OR true"}]}')
== join on not unequal | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "NOT (c.name <> people.city AND people.age > 40)"}]}')
== join on unequal | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "NOT c.name = people.city"}]}')
== join on key equals key | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "c.name = c.name"}]}')
== join on a circle of keys | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": null}, {"schema": "public", "name": "cities", "alias": "d", "on": "d.name = c.name"}]}')
== join on a circle that closes | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "c.name = d.name"}, {"schema": "public", "name": "cities", "alias": "d", "on": "d.name = c.name"}]}')
== join on a cast of the key | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "left(c.name, 1) = left(people.city, 1)"}]}')
== join on the key under CASE | direct DP003/DP004
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "CASE WHEN people.age > 40 THEN c.name = people.city ELSE true END"}]}')
== join that closes the condition | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "c.name = people.city) OR (true"}]}')
== alias that hides another | direct DP003/DP004/42712
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "people", "on": "people.name = people.city"}]}')
== alias that is SQL | direct DP003/DP004/ok | charged <=1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 30', 0.01) || '{"joins": [{"schema": "public", "name": "cities", "alias": "c\" ON true; --", "on": "\"c\"\" ON true; --\".name = people.city"}]}') -> 'rows'
== joins as text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": "cities"}')
== joins without end | direct DP003/DP005
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('joins', (SELECT jsonb_agg('{"schema": "public", "name": "cities", "alias": "c", "on": "true"}'::jsonb) FROM generate_series(1, 3000))))
== unknown member of a join | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"joins": [{"schema": "public", "name": "cities", "alias": "c", "on": "c.name = people.city", "lateral": true}]}')
== semi-join in a predicate text over the protected table | all DP003
SELECT dp_count('people', 'city IN (SELECT p.city FROM public.people p)')
== semi-join in a predicate text over a catalog | all DP003/DP002/42501/42P01
SELECT dp_count('people', 'city IN (SELECT c.relname::text FROM pg_catalog.pg_class c)')
== semi-join in a predicate text over the ledger | all DP003/DP002/42501/42P01
SELECT dp_count('people', 'EXISTS (SELECT 1 FROM dp.ledger l)')
== semi-join in a predicate text with LIMIT | all DP003
SELECT dp_count('people', 'city IN (SELECT c.name FROM public.cities c LIMIT 1)')
== semi-join in a predicate text with a set | all DP003
SELECT dp_count('people', 'city IN (SELECT c.name FROM public.cities c UNION SELECT p.city FROM public.people p)')
== semi-join in a predicate text with a function | all DP003
SELECT dp_count('people', 'city IN (SELECT pg_read_file(c.name) FROM public.cities c)')
== semi-join that divides by the public row | all DP003
SELECT dp_count('people', 'EXISTS (SELECT 1 FROM public.cities c WHERE 1 / (c.size - 3) > people.age)')
== bars that are not asked for as a flag | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"bars": "yes"}')
== bars of a free question | direct ok | charged <=1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 32', 0.01) || '{"bars": true}') -> 'rows'
== parameters that are unknown | direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,parameters}', '{"sensitivity": "0.001"}'))
== parameters as a list | direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,parameters}', '["lower"]'))
== parameters of a count | direct DP003/DP005/ok | charged <=1
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'age > 33', 0.01), '{aggregates,0,parameters}', '{"max_contribution": "0.000001"}')) -> 'rows'
== two aggregates, the second refused | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,1}', '{"function": "max", "argument": "age"}'))

-- Comparisons of released answers: what was released to others, and texts that are more than names and numbers.
== dp_compare before any grouped answer | all DP005
SELECT * FROM dp_compare('f', 'm')
== dp_compare of a release that is nobody's | all 42501
SELECT * FROM dp_compare('f', 'm', release => '6f9619ff-8b86-4011-b42d-00c04fc964ff')
== dp_compare of a forged last release | direct 42501
SELECT set_config('dp.last_release', '6f9619ff-8b86-4011-b42d-00c04fc964ff 0 0', false)
---
SELECT * FROM dp_compare('f', 'm')
== dp_compare of rows | proxy DP002/DP003, direct 42501
SELECT c.* FROM people, dp_compare(people.sex, 'm') AS c
== dp_compare of a sub-query over rows | proxy DP002/DP003, direct 42501
SELECT * FROM dp_compare((SELECT sex FROM people LIMIT 1), 'm')
== dp_compare, an expression with a sub-query | all DP003 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('{f,m}', expression => '(SELECT max(age) FROM people)')
== dp_compare, an expression that calls a function | all DP003 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('{f,m}', expression => 'o1 + pg_sleep(9)')
== dp_compare, an expression in Python | all DP003 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('{f,m}', expression => '__import__("os").system("id") or o1')
== dp_compare, an expression as deep as a stack | all DP003 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('{f,m}', expression => repeat('(', 5000) || 'o1' || repeat(')', 5000))
== dp_compare, weights without end | all DP005 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('{f,m}', weights => ARRAY[1, ('1' || repeat('0', 3000))::numeric])
== dp_compare, a group that is no declared one | all DP005 | charged <=1
SELECT count(*) FROM dp_group_by('people', '{sex}', epsilon => 0.01)
---
SELECT * FROM dp_compare('f', ''' OR true --')
