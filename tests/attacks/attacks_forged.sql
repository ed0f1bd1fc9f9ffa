-- Direct calls of the engine's own functions, forged requests, what others asked: the same form as attacks.sql.

-- The engine's inner functions ---------------------------------------------------------------------------------------------------------
== charge | proxy DP003/42883, direct 42501
SELECT dp._charge(gen_random_uuid(), 'bob', '{}')
== answer | proxy DP003/42883, direct 42501
SELECT dp._answer('00000000-0000-0000-0000-000000000000')
== budget of another | proxy DP003/42883, direct 42501
SELECT dp._budget_left('people', 'bob')
== channel | proxy DP003/42883, direct 42501
SELECT dp._channel_once('SELECT 1')
== channel, second door | proxy DP003/42883, direct 42501
SELECT dp._channel_ask('SELECT 1', gen_random_uuid())
== who | proxy DP003/42883, direct 42501
SELECT dp._who()
== verifier | proxy DP003/42883, direct 42501
SELECT dp.verifier('bob')
== hello | proxy DP003/42883, direct 42501
SELECT dp._hello()
== policy of a table | proxy DP003/42883, direct 42501
SELECT dp._policy_of('public', 'people')
== facade definition | proxy DP003/42883, direct 42501
SELECT dp.facade_definition()
== check | proxy DP003/42883, direct 42501
SELECT * FROM dp.check()
== ledger rows | proxy 42P01, direct 42501
SELECT * FROM dp.ledger
== accounts | proxy 42P01, direct 42501
SELECT * FROM dp.account
== releases | proxy 42P01, direct 42501
SELECT * FROM dp.release
== policies | proxy 42P01, direct 42501
SELECT * FROM dp.column_policy
== allotments | proxy 42P01, direct 42501
SELECT * FROM dp.role_allotment
== state of the facade | proxy 42501, direct 42P01
SELECT * FROM dp_state.facade_state
== write to the ledger | proxy 42P01, direct 42501
DELETE FROM dp.ledger
== write to a view | proxy 55000/DP003/42501, direct 55000/42501
UPDATE dp.budget SET epsilon = 100
== allot to oneself | proxy 42883/42501, direct 42501
CALL dp.allot('alice', 'people', epsilon => 100)
== publish a note | proxy 42883/42501, direct 42501
CALL dp.publish('people')
== refresh | proxy 42883/42501, direct 42501
CALL dp.refresh('people')
== new dataset | proxy 42883/42501, direct 42501
CALL dp.create_dataset('mine', epsilon => 100)
== confirm a ledger | proxy 42883/42501, direct 42501
CALL dp.confirm_ledger('people', add_epsilon => 0)
== reopen a dataset | proxy 42883/42501, direct 42501
CALL dp.reopen('people')
== freeze a dataset | proxy 42883/42501, direct 42501
CALL dp.freeze('people')
== reopen a question | proxy 42883/42501, direct 42501
CALL dp.reopen_question('00000000-0000-0000-0000-000000000001')
== repair the channel | proxy 42883/42501, direct 42501
CALL dp.repair_channel()
== harden again | proxy 42883/42501, direct 42501
CALL dp.harden_catalog()
== surfaces of the facade | proxy 42501, direct 42883
SELECT dp.open_surfaces()
== raise an error of one's own | proxy DP001, direct 42883
SELECT dp.raise('DP001', 'x', NULL, NULL)
== result function with a forged answer | all ok=7
SELECT dp.dp_count_result('{"rows": [["7"]]}')
== relation by name | all ok
SELECT dp.relation_ref('people')
== relation that is hidden, by its number | all ok
SELECT dp.relation_ref(1259)

-- Forged requests ------------------------------------------------------------------------------------------------------------------------
== nothing | direct DP003
SELECT dp.dp_query(NULL)
== empty | direct DP003
SELECT dp.dp_query('{}')
== an array | direct DP003
SELECT dp.dp_query('[1, 2]')
== a string | direct DP003
SELECT dp.dp_query('"SELECT * FROM people"')
== a number | direct DP003
SELECT dp.dp_query('1e400')
== unknown member | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"sql": "SELECT * FROM people"}')
== unknown member in from | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,only}', 'true'))
== unknown member in an aggregate | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,order}', '"age"'))
== setting that the engine does not know | direct ok | charged 1
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'age > 60', 0.01), '{settings,role}', '"postgres"')) -> 'rows'
== other version | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"version": 2}')
== version as text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"version": "1; DROP TABLE people"}')
== from as text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"from": "people"}')
== from as an array | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"from": [{"schema": "public", "name": "people"}, {"schema": "public", "name": "orders"}]}')
== from a missing schema | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,schema}', '"nowhere"'))
== from a table that is not published | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '"notes"'))
== from a table that does not exist: the same words | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '"no_such_notes"'))
== from the ledger | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(jsonb_set(dp.dp_count_request('people'), '{from,schema}', '"dp"'), '{from,name}', '"ledger"'))
== from a catalog | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(jsonb_set(dp.dp_count_request('people'), '{from,schema}', '"pg_catalog"'), '{from,name}', '"pg_class"'))
== injection in the name | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '"people; DROP TABLE people; --"'))
== injection in the name's quotes | direct DP002/DP003/DP004/42501/42P01
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '"people\" WHERE true UNION SELECT 1 --"'))
== alias that is SQL: it is quoted | direct ok | charged 1
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'age > 61', 0.01), '{from,alias}', '"p; SELECT 1 --"')) -> 'rows'
== alias of another type | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,alias}', '["p"]'))
== name that is not text | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '{"x": 1}'))
== name with a null character's escape | direct 22P05
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', '"peo\u0000ple"'))
== where that is not text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": {"raw": "true"}}')
== where that is a number | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": 1}')
== where that closes the query | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": "true) UNION ALL (SELECT age FROM people"}')
== where with a semicolon | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": "true; SELECT 1"}')
== comment at the end of the predicate: it is dropped | direct ok | charged 1
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": "age > 59 -- "}') -> 'rows'
== where with a dollar quote | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": "sex = $x$f$x$ OR EXISTS (SELECT 1)"}')
== where with an E string | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people', epsilon => 0.01) || '{"where": "sex = E''\\x66\\'' OR true OR sex = ''x"}')
== where that is too deep | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('where', repeat('NOT ', 50000) || 'true'))
== where with parentheses without end | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('where', repeat('(', 20000) || 'true' || repeat(')', 20000)))
== where with a sum without end | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('where', 'age > 1' || repeat('+1', 100000)))
== where beyond a megabyte | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('where', 'sex = ''' || repeat('x', 1100000) || ''''))
== nested without end | direct DP003/DP006
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{from,name}', (repeat('[', 5000) || repeat(']', 5000))::jsonb))
== keys as text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"keys": "sex"}')
== keys beyond reason | direct ok/DP003/DP005 | charged <=1
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('keys', (SELECT jsonb_agg('sex'::text) FROM generate_series(1, 2000)))) -> 'rows'
== key that is a sub-query | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"keys": ["(SELECT sex FROM people LIMIT 1)"]}')
== key that is a constant | direct ok/DP003/DP004 | charged <=1
SELECT dp.dp_query(dp.dp_count_request('people') || '{"keys": ["1"]}') -> 'rows'
== no aggregates: nothing but the declared domain | direct ok
SELECT dp.dp_query(dp.dp_count_request('people') || '{"aggregates": []}') -> 'rows'
== aggregates beyond reason | direct DP003/DP005
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('aggregates', (SELECT jsonb_agg('count(*)'::text) FROM generate_series(1, 5000))))
== aggregate that is unknown | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,function}', '"pg_read_file"'))
== aggregate that is SQL | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,function}', '"count(*), max(age)"'))
== argument that is SQL | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,argument}', '"*) + (SELECT max(age) FROM people"'))
== filter that is SQL | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,filter}', '"true) FROM people; --"'))
== distinct that is text | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{aggregates,0,distinct}', '"yes"'))
== fresh that is text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"fresh": "false"}')
== budget of two kinds | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "0.1", "rho": "0.1"}}')
== budget as a number | direct ok/DP005 | charged 1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 57') || '{"budget": {"epsilon": 0.01}}') -> 'rows'
== budget as a list | direct DP003/DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": ["epsilon"]}')
== budget NaN | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "NaN"}}')
== budget signalling NaN | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "sNaN"}}')
== budget Infinity | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "Infinity"}}')
== budget negative | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "-0.1"}}')
== budget with a tiny exponent | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "1e-400"}}')
== budget with an endless exponent | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "1e999999999"}}')
== budget with a huge negative exponent | direct DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"budget": {"epsilon": "1e-999999999"}}')
== budget with underscores | direct ok/DP005 | charged 1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 58') || '{"budget": {"epsilon": "0.0_1"}}') -> 'rows'
== budget in other digits than ours | direct ok/DP005 | charged 1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 62') || '{"budget": {"epsilon": "٠.٠١"}}') -> 'rows'
== budget of many digits | direct DP001/DP005
SELECT dp.dp_query(dp.dp_count_request('people') || jsonb_build_object('budget', jsonb_build_object('epsilon', repeat('9', 10000))))
== budget of many decimals | direct ok | charged 1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 63') || jsonb_build_object('budget', jsonb_build_object('epsilon', '0.01' || repeat('1', 5000)))) -> 'rows'
== mechanism that is not text | direct DP003/DP005
SELECT dp.dp_query(dp.dp_count_request('people') || '{"mechanism": ["laplace"]}')
== settings as text | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"settings": "TimeZone"}')
== setting that is a number | direct DP003
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{settings,TimeZone}', '1'))
== time zone that is SQL | direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'joined > ''2024-03-03'''), '{settings,TimeZone}', '"UTC''; DROP TABLE people; --"'))
== date style that is SQL | direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'joined > ''2024-03-03'''), '{settings,DateStyle}', '"ISO, ''; SELECT 1"'))
== now that is SQL | direct DP003/DP005/22007
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people', 'joined < now()'), '{settings,now}', '"2024-01-01''; SELECT 1"'))
== confidence of one | direct DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{settings,dp.confidence}', '"1"'))
== confidence as a list | direct DP003/DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{settings,dp.confidence}', '["0.9"]'))
== confidence NaN | direct DP005
SELECT dp.dp_query(jsonb_set(dp.dp_count_request('people'), '{settings,dp.confidence}', '"NaN"'))
== lone surrogate | direct 22P02
SELECT dp.dp_query(dp.dp_count_request('people') || '{"where": "sex = ''\ud800''"}')
== call of another name | direct ok | charged 1
SELECT dp.dp_query(dp.dp_count_request('people', 'age > 64', 0.01) || '{"call": "dp_import"}') -> 'rows'
== request in another's name | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"who": "bob"}')
== request with an id of its own | direct DP003
SELECT dp.dp_query(dp.dp_count_request('people') || '{"request_id": "00000000-0000-0000-0000-000000000000"}')
== plan of a forged request | all DP003
SELECT dp.dp_plan('{"version": 1, "sql": "SELECT * FROM people"}')
== plan of another relation | all DP002/DP003/DP004/42501/42P01
SELECT dp.dp_plan('{"version": 1, "from": {"schema": "dp", "name": "ledger"}, "aggregates": [{"function": "count", "argument": "*"}]}')
== plan with a sub-query | all DP003
SELECT dp.dp_plan('{"version": 1, "from": {"schema": "public", "name": "people"}, "where": "age = (SELECT 1 LIMIT 1)", "aggregates": [{"function": "count", "argument": "*"}]}')
== plan charges nothing | all ok
SELECT dp.dp_plan('{"version": 1, "from": {"schema": "public", "name": "people"}, "where": "age > 65", "aggregates": [{"function": "count", "argument": "*"}]}') - 'as_of' - 'text'
== plan without end | all DP003/DP006
SELECT dp.dp_plan(jsonb_set(dp.dp_count_request('people'), '{from,name}', (repeat('[', 5000) || repeat(']', 5000))::jsonb))
== plan of a list | all DP003
SELECT dp.dp_plan('[]')
== plan with settings of other types | all DP003/DP005
SELECT dp.dp_plan(jsonb_set(dp.dp_count_request('people'), '{settings,dp.confidence}', '{"a": 1}'))
== plan of NULL | all DP003
SELECT dp.dp_plan(NULL)
== request function through the proxy | proxy ok, direct ok
SELECT dp.dp_count_request('people', epsilon => 0.5) -> 'budget'
== empty request through the proxy | proxy DP003
SELECT dp.dp_query('{}')

-- Statements in one message, transactions ----------------------------------------------------------------------------------------------------
== two statements, the second raw | simple DP002, extended 42601
SELECT 1; SELECT * FROM people
== two statements, the first raw | simple DP002, extended 42601
SELECT * FROM people; SELECT 1
== raw rows behind a count | simple DP002, extended 42601 | charged 1
SELECT count(*) FROM people WHERE age > 66; SELECT * FROM people
== count behind a write | simple DP003, extended 42601
CREATE TEMP TABLE t (a int); SELECT count(*) FROM people WHERE age > 67
== count behind a change of search_path | simple DP003, extended 42601
SET search_path = pg_temp; SELECT count(*) FROM people WHERE age > 67
== count behind SET ROLE | simple DP003/42501, extended 42601
SET ROLE dp_owner; SELECT count(*) FROM people WHERE age > 67
== count behind a DO block | simple DP003, extended 42601
DO $$ BEGIN END $$; SELECT count(*) FROM people WHERE age > 67
== semicolon in a string | proxy DP002, direct 42501
SELECT ';', * FROM people -- ;
== semicolon in a dollar quote | proxy DP002, direct 42501
SELECT $a$; count(*) $a$, * FROM people
== empty statements around it | simple DP002, extended DP002/42601, direct 42501
;;; SELECT * FROM people;;;
== in an aborted transaction | proxy 25P02, direct 25P02
BEGIN
---
SELECT 1 / 0
---!
SELECT count(*) FROM people WHERE age > 68
== in a subtransaction that fails | proxy DP002, direct 42501
BEGIN
---
SAVEPOINT a
---
SELECT * FROM people
---!
ROLLBACK TO a
---!
SELECT id FROM people
== in a read-only transaction | proxy DP002, direct 42501
BEGIN READ ONLY
---
SELECT * FROM people
== prepared, then shadowed | proxy 42P01/DP002/26000
PREPARE p AS SELECT id FROM people
---!
CREATE TEMP TABLE people (id int)
---!
EXECUTE p
== execute of another's plan in a function | proxy DP002/DP003/26000, direct 42501/26000
DO $$ BEGIN EXECUTE 'PREPARE q AS SELECT id FROM people'; END $$
---!
EXECUTE q
== row smuggled in a notice | proxy DP002, direct 42501
DO $$ DECLARE r record; BEGIN FOR r IN EXECUTE 'SELECT * FROM people' LOOP RAISE NOTICE '%', r; END LOOP; END $$
== standard_conforming_strings off | proxy DP003/DP002, direct 42501
SET standard_conforming_strings = off
---
SELECT count(*) FROM people WHERE sex = 'a\' OR age > 3 OR sex = '
== other encoding | proxy DP003, direct 42501
SET client_encoding = 'SJIS'
---
SELECT count(*) FROM people WHERE sex = 'ソ'

-- What others asked ---------------------------------------------------------------------------------------------------------------------------
== others' questions | all ok=0
SELECT count(*) FILTER (WHERE question LIKE '%mallory%') FROM dp.spending WHERE who IS DISTINCT FROM 'alice'
== others' names | all ok=0
SELECT count(*) FROM dp.spending WHERE who <> session_user
== others' partitions and calls | all ok=0
SELECT count(*) FROM dp.spending WHERE who IS NULL AND (call IS NOT NULL OR accounts IS NOT NULL OR question IS NOT NULL)
== others' charges are seen | all ok=1
SELECT count(*) FROM dp.spending WHERE who IS NULL AND dataset = 'people' AND charge @> '[{"epsilon": "0.123"}]'
== others' questions by the plan | all ok
SELECT dp.dp_plan('{"version": 1, "from": {"schema": "public", "name": "people"}, "where": "sex = ''nobody''", "aggregates": [{"function": "count", "argument": "*"}]}') -> 'mechanism'
== others' allotments | all ok=0
SELECT count(*) FROM dp.budget WHERE dataset NOT IN ('people', 'shop')
== others' releases are free | proxy ok, direct ok
SELECT dp_count('people', 'sex = ''f'' AND age > 21', epsilon => 0.123) IS NOT NULL
== cache status holds no question | all ok=0
SELECT count(*) FROM dp.cache_status c WHERE c::text LIKE '%mallory%'
== others' last answers | all ok=0
SELECT count(*) FROM dp.last_answer l WHERE l::text LIKE '%mallory%'
