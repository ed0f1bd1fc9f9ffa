-- Statistics, counters, files, identities: the same form as attacks.sql.

-- Row counts in catalogs -------------------------------------------------------------------------------------------------------------
== reltuples of people | proxy ok=-1.0, direct 42501
SELECT reltuples FROM pg_class WHERE oid = 'people'::regclass
== relpages of people | proxy ok=0, direct 42501
SELECT relpages FROM pg_class WHERE oid = 'people'::regclass
== all of pg_class | simple ok, extended 42883, direct 42501
SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public' AND relname = 'people'
== whole row of pg_class | simple ok, extended 42883, direct 42501
SELECT c FROM pg_class c WHERE oid = 'people'::regclass
== xmin of the catalog row | direct 42501
SELECT xmin FROM pg_class WHERE oid = 'people'::regclass
== relallvisible | proxy ok=0, direct 42501
SELECT relallvisible FROM pg_class WHERE oid = 'people'::regclass
== what \d and drivers read | all ok
SELECT c.oid::regclass, c.relkind, c.relhasindex, c.reltype, c.relrowsecurity, c.relpersistence, c.relreplident FROM pg_class c WHERE c.oid = 'people'::regclass
== pg_stats | all ok
SELECT tablename, attname, n_distinct, most_common_vals, histogram_bounds FROM pg_stats WHERE schemaname = 'public'
== pg_stats counted | all ok=0
SELECT count(*) FROM pg_stats WHERE schemaname = 'public'
== pg_statistic | all 42501
SELECT stanumbers1 FROM pg_statistic
== pg_statistic_ext_data | all 42501
SELECT * FROM pg_statistic_ext_data
== pg_stats_ext | all ok
SELECT * FROM pg_stats_ext
== pg_stat_user_tables | proxy ok, direct 42501
SELECT relname, n_live_tup, n_tup_ins, seq_tup_read, last_analyze FROM pg_stat_user_tables ORDER BY 1
== pg_stat_all_indexes | proxy ok, direct 42501
SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes ORDER BY 1
== pg_statio | proxy ok, direct 42501
SELECT relname, heap_blks_read FROM pg_statio_user_tables ORDER BY 1
== pg_stat_get_live_tuples | proxy ok=0, direct 42501
SELECT pg_stat_get_live_tuples('people'::regclass)
== pg_stat_get_tuples_inserted | proxy ok=0, direct 42501
SELECT pg_stat_get_tuples_inserted('people'::regclass)
== pg_stat_get_last_analyze_time | proxy ok, direct 42501
SELECT pg_stat_get_last_analyze_time('people'::regclass)
== pg_stat_database | all 42501
SELECT tup_returned, tup_inserted FROM pg_stat_database
== pg_stat_activity | all 42501
SELECT query FROM pg_stat_activity
== pg_stat_wal | all 42501
SELECT * FROM pg_stat_wal
== pg_stat_bgwriter | all 42501
SELECT * FROM pg_stat_bgwriter
== pg_stat_io of slru | all 42501
SELECT * FROM pg_stat_slru
== pg_stat_progress | all 42501
SELECT * FROM pg_stat_progress_analyze
== pg_stat_have_stats | all 42501
SELECT pg_stat_have_stats('relation', 0, 'people'::regclass)
== pg_relation_size | proxy ok/42501, direct 42501
SELECT pg_relation_size('people')
== pg_total_relation_size | proxy ok/42501, direct 42501
SELECT pg_total_relation_size('people')
== pg_table_size | proxy ok/42501, direct 42501
SELECT pg_table_size('people')
== pg_indexes_size | proxy ok/42501, direct 42501
SELECT pg_indexes_size('people')
== file number of the table | proxy ok, direct 42501
SELECT relfilenode FROM pg_class WHERE oid = 'people'::regclass
== file number by function | proxy ok, direct 42501
SELECT pg_relation_filenode('people')
== table by file number | proxy ok, direct 42501
SELECT count(*) FROM generate_series(16384, 20000) g WHERE pg_filenode_relation(0, g::oid) = 'people'::regclass
== file number of an index | proxy ok, direct 42501
SELECT pg_relation_filenode('people_pkey')
== pg_database_size | all 42501
SELECT pg_database_size('private')
== pg_tablespace_size | all 42501
SELECT pg_tablespace_size('pg_default')
== pg_relation_filepath | all 42501
SELECT pg_relation_filepath('people')
== tuple by its place | proxy 22023, direct 42501
SELECT currtid2('people', '(0,1)')
== WAL position | all 42501
SELECT pg_current_wal_lsn()
== WAL insert position | all 42501
SELECT pg_current_wal_insert_lsn()
== checkpoint | all 42501
SELECT * FROM pg_control_checkpoint()
== commit time | all 42501
SELECT pg_xact_commit_timestamp('3'::xid)
== exported snapshot | all 42501
SELECT pg_export_snapshot()
== locks | all 42501
SELECT * FROM pg_locks
== prepared transactions | all 42501
SELECT * FROM pg_prepared_xacts
== replication slots | proxy ok=0, direct 42501
SELECT count(*) FROM pg_replication_slots
== the function behind them | all 42501
SELECT * FROM pg_get_replication_slots()
== settings of roles | all 42501
SELECT * FROM pg_db_role_setting
== dependencies of shared objects | all 42501
SELECT * FROM pg_shdepend
== passwords | all 42501
SELECT rolpassword FROM pg_authid
== pg_shadow | all 42501
SELECT * FROM pg_shadow
== user mappings | all ok=0
SELECT count(umoptions) FROM pg_user_mappings
== user mapping table | all 42501
SELECT * FROM pg_user_mapping
== hba file | all 42501
SELECT * FROM pg_hba_file_rules
== configuration file | all 42501
SELECT * FROM pg_file_settings
== settings that only superusers see | all 42501
SHOW data_directory
== sequence | proxy 42P01, direct 42501
SELECT last_value FROM ticket
== sequence of an identity column | proxy 42P01, direct 42501
SELECT last_value FROM notes_id_seq
== pg_sequences | all ok
SELECT sequencename, last_value FROM pg_sequences
== pg_sequence_last_value | proxy 42P01, direct 42501/ok
SELECT pg_sequence_last_value('ticket')
== nextval | proxy 42P01, direct 42501
SELECT nextval('ticket')
== view of the owner, its definition | proxy 42P01, direct ok
SELECT pg_get_viewdef('grown'::regclass)
== materialized view of the owner | proxy 42P01, direct 42501
SELECT * FROM ages
== refresh of a materialized view | proxy 42P01, direct 42501
REFRESH MATERIALIZED VIEW ages
== analyze people | proxy ok, direct ok
ANALYZE VERBOSE people
== vacuum people | proxy ok, direct ok
VACUUM people
== index summaries | all 42501/42809
SELECT brin_summarize_new_values('people_pkey'::regclass)
== create index | all 42501
CREATE UNIQUE INDEX ON people (age)
== unique constraint | all 42501
ALTER TABLE people ADD UNIQUE (age)
== check constraint | all 42501
ALTER TABLE people ADD CHECK (age <> 37)
== extended statistics | all 42501
CREATE STATISTICS s ON age, sex FROM people
== foreign key into people | proxy 42P16, direct 42P16/42501
CREATE TEMP TABLE probe (id int REFERENCES people)
== inheritance | all 42501
CREATE TEMP TABLE heir () INHERITS (people)
== like people | proxy ok, direct 42501
CREATE TEMP TABLE copy (LIKE people INCLUDING ALL)
== lock | all 42501
BEGIN
---
LOCK TABLE people IN ACCESS EXCLUSIVE MODE
== comment on people | all 42501
COMMENT ON TABLE people IS 'x'
== own grant | all 42501
ALTER TABLE people OWNER TO alice
== grant to oneself | proxy ok/42501, direct 42501
GRANT SELECT ON people TO alice
== drop policy | proxy 42501, direct 42501/42704
DROP POLICY pg_epsilon ON people
== disable row security | all 42501
ALTER TABLE people DISABLE ROW LEVEL SECURITY
== row_security off | proxy DP002/42501, direct 42501
SET row_security = off
---
SELECT * FROM people
== row_security off in a function | proxy DP002/42501, direct 42501
SET row_security = off
---
DO $$ BEGIN PERFORM 1 FROM people; END $$
== planner that folds nothing | proxy DP002, direct 42501
SET plan_cache_mode = force_generic_plan
---
DO $$ BEGIN PERFORM 1 FROM people WHERE age = 37; END $$
== constraint exclusion | proxy DP002, direct 42501
SET constraint_exclusion = on
---
DO $$ BEGIN PERFORM 1 FROM people WHERE id IS NULL; END $$
== false condition | proxy DP002, direct 42501
DO $$ BEGIN PERFORM 1 FROM people WHERE false; END $$

-- Writes ------------------------------------------------------------------------------------------------------------------------------
== insert | all 42501
INSERT INTO people (id) VALUES (7)
== insert on conflict | all 42501
INSERT INTO people (id) VALUES (1) ON CONFLICT (id) DO NOTHING
== insert returning | all 42501
INSERT INTO people (id) VALUES (-2) RETURNING *
== update | all 42501
UPDATE people SET age = 1
== update returning | all 42501
UPDATE people SET age = age WHERE age = 37 RETURNING id
== delete | all 42501
DELETE FROM people
== delete in a CTE | all 42501
WITH gone AS (DELETE FROM people RETURNING *) SELECT count(*) FROM gone
== truncate | all 42501
TRUNCATE people
== merge | all 42501
MERGE INTO people USING (VALUES (1)) v(x) ON id = x WHEN MATCHED THEN DELETE
== copy in | all 42501
COPY people FROM STDIN
== drop | all 42501
DROP TABLE people
== update in a DO block | proxy 42501/DP002, direct 42501
DO $$ BEGIN UPDATE people SET age = 1; END $$
== own temporary table | all ok=42
CREATE TEMP TABLE mine (a int)
---
INSERT INTO mine VALUES (41)
---
UPDATE mine SET a = a + 1
---
SELECT a FROM mine
== create table in public | all 42501
CREATE TABLE public.mine (a int)
== create schema | all 42501
CREATE SCHEMA mine
== create role | all 42501
CREATE ROLE helper
== create database | all 42501
CREATE DATABASE helper
== create function in public | all 42501
CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
== replace dp_count | all 42501
CREATE OR REPLACE FUNCTION dp.dp_count_result(answer jsonb) RETURNS bigint LANGUAGE sql AS 'SELECT 1'
== event trigger | all 42501
CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION pg_temp.f()
== reassign owned | all 42501
REASSIGN OWNED BY boss TO alice

-- Who is asking -------------------------------------------------------------------------------------------------------------------------
== set role to the owner | all 42501
SET ROLE dp_owner
== set role to the gateway | all 42501
SET ROLE dp_gateway
== set role to another analyst | all 42501
SET ROLE bob
== set_config of role | all 42501
SELECT set_config('role', 'boss', false)
== set_config of role in a DO block | all 42501
DO $$ BEGIN PERFORM set_config('role', 'dp_owner', false); END $$
== session authorization | all 42501
SET SESSION AUTHORIZATION bob
== session authorization to the gateway | all 42501
SET SESSION AUTHORIZATION dp_gateway
== dp.analyst, then somebody's budget | all ok
SET dp.analyst = 'bob'
---
SELECT dataset, your_epsilon, your_epsilon_left FROM dp.budget
== dp.analyst by set_config | all ok
SELECT set_config('dp.analyst', 'bob', false)
---
SELECT count(*) FILTER (WHERE who = 'bob') FROM dp.spending
== dp.analyst local | all ok
BEGIN
---
SET LOCAL dp.analyst = 'bob'
---
SELECT dataset, your_epsilon_left FROM dp.budget
== the group that one is a member of | all ok
SET ROLE dp_analyst
---
SELECT dataset, your_epsilon_left FROM dp.budget
== after SET ROLE the asker is still who logged in | all ok
SET ROLE dp_analyst
---
SELECT session_user
== who the catalog says | all ok
SELECT current_user, session_user, usesuper FROM pg_user WHERE usename = session_user

-- Shadowing -------------------------------------------------------------------------------------------------------------------------------
== temporary table shadows the protected one | all ok=1
CREATE TEMP TABLE people (id int)
---
INSERT INTO people VALUES (1)
---
SELECT count(*) FROM people
== the shadowed one by its schema | proxy DP002, direct 42501
CREATE TEMP TABLE people (id int)
---
SELECT * FROM public.people
== shadow dropped in the same session | proxy DP002, direct 42501
CREATE TEMP TABLE people (id int)
---
DROP TABLE people
---
SELECT id FROM people
== temporary view named like it | all ok=7
CREATE TEMP VIEW people AS SELECT 7 AS x
---
SELECT x FROM people
== search_path to pg_temp only | proxy DP002, direct 42501
SET search_path = pg_temp, public
---
SELECT * FROM people
== empty search_path | all 42P01
SET search_path = ''
---
SELECT * FROM people
== count in pg_temp | proxy DP003/42883, direct 42501/42883
CREATE FUNCTION pg_temp.count(people) RETURNS text LANGUAGE sql AS 'SELECT $1::text'
---
SELECT pg_temp.count(people) FROM people
== lower in pg_temp | proxy DP003, direct 42501
CREATE FUNCTION pg_temp.lower(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN $1; END $$
---
SELECT count(*) FROM people WHERE pg_temp.lower(sex) = 'f'
== dp_count in pg_temp | all ok=5
CREATE FUNCTION pg_temp.dp_count(text) RETURNS bigint LANGUAGE sql AS 'SELECT 5::bigint'
---
SELECT pg_temp.dp_count('people')
== session_settings in pg_temp | all DP005
CREATE FUNCTION pg_temp.session_settings() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"dp.epsilon": "1e-9"}'::jsonb $$
---
SET search_path = pg_temp, dp, public
---
SELECT dp_count('people', epsilon => 0)
== temporary tables named like the engine's | all ok
CREATE TEMP TABLE ledger (a int)
---
CREATE TEMP TABLE account (a int)
---
SELECT count(*) FROM dp.spending WHERE who = 'mallory'
== domain int8 in pg_temp | all DP004
CREATE DOMAIN pg_temp.int8 AS text CHECK (VALUE = 'x')
---
SELECT dp_count('people', 'score::int8 = ''x''::jsonb')
== domain text in pg_temp, a rewritten count | proxy DP003, direct 42501
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE <> 'f')
---
SELECT count(*) FROM people WHERE sex::pg_temp.text = 'f'
== cast function on a composite | proxy 42883, direct 42501/42883
SELECT count(*) FROM people WHERE text(people) LIKE '%37%'
== column as a function of the table | proxy DP003/DP002, direct 42501
SELECT age(people), count(*) FROM people GROUP BY 1
== operator in pg_temp | proxy DP003, direct 42501
CREATE FUNCTION pg_temp.tell(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$
---
CREATE OPERATOR pg_temp.== (leftarg = text, rightarg = text, function = pg_temp.tell)
---
SELECT count(*) FROM people WHERE sex OPERATOR(pg_temp.==) 'f'

-- The caller's own counters around a paid call ----------------------------------------------------------------------------------------------
== explain analyze of dp_count runs nothing here | proxy ok
EXPLAIN (ANALYZE, BUFFERS) SELECT dp_count('people', 'age > 50', epsilon => 0.01, fresh => true)
== explain analyze of dp_count | direct ok | charged 1 fresh
EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) SELECT dp_count('people', 'age > 50', epsilon => 0.01, fresh => true)
== own tuple counters around dp_count | proxy ok, direct 42501 | charged 1 fresh
CREATE TEMP TABLE kept AS SELECT dp_count('people', 'age > 51', epsilon => 0.01, fresh => true)
---
SELECT pg_stat_get_xact_tuples_returned('people'::regclass), pg_stat_get_xact_tuples_fetched('people'::regclass), pg_stat_get_xact_blocks_fetched('people'::regclass)
== pg_stat_xact_user_tables around dp_count | proxy ok, direct 42501 | charged 1 fresh
CREATE TEMP TABLE kept AS SELECT dp_count('people', 'age > 52', epsilon => 0.01, fresh => true)
---
SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'people'
== transactions that a call takes | all ok | charged 1 fresh
CREATE TEMP TABLE kept AS SELECT txid_current() AS before
---
CREATE TEMP TABLE answer AS SELECT dp_count('people', 'age > 53', epsilon => 0.01, fresh => true)
---
SELECT txid_current() - before FROM kept
== transactions that a grouped call takes | all ok | charged 1 fresh
CREATE TEMP TABLE kept AS SELECT txid_current() AS before
---
CREATE TEMP TABLE answer AS SELECT * FROM dp_group_by('people', '{sex}', epsilon => 0.01, fresh => true)
---
SELECT txid_current() - before FROM kept
== parse trees as messages | direct ok | charged 1 fresh
SET client_min_messages = log
---
SET debug_print_parse = on
---
SET debug_print_rewritten = on
---
DO $$ BEGIN PERFORM dp.dp_count('orders', epsilon => 0.01, fresh => true); END $$
== plan trees as messages | direct ok | charged 1 fresh
SET client_min_messages = log
---
SET debug_print_plan = on
---
DO $$ BEGIN PERFORM dp.dp_count('orders', epsilon => 0.01, fresh => true); END $$
== messages of every level through the proxy | proxy ok | charged 1 fresh
SET client_min_messages = log
---
CREATE TEMP TABLE kept AS SELECT dp_count('orders', epsilon => 0.01, fresh => true)
== trace_sort | direct ok/42704 | charged 1 fresh
SET trace_sort = on
---
SET client_min_messages = log
---
CREATE TEMP TABLE kept AS SELECT dp_count('items', epsilon => 0.01, fresh => true)
== transactions that a call by user takes | all ok | charged 1 fresh
CREATE TEMP TABLE kept AS SELECT txid_current() AS before
---
CREATE TEMP TABLE answer AS SELECT dp_count('items', epsilon => 0.01, fresh => true)
---
SELECT txid_current() - before FROM kept
== notices of a refusal that is caught | direct ok
SET dp.notices = on
---
DO $$ BEGIN PERFORM dp.dp_group_by('people', '{joined,score}'); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLSTATE; END $$
== listen | all ok
LISTEN people
---
NOTIFY people, 'x'
---
UNLISTEN *
== notification queue | all 42501
SELECT pg_notification_queue_usage()
== large object | all 42501
SELECT lo_create(0)
== large object from a file | all 42501
SELECT lo_import('/etc/passwd')
== server file | all 42501
SELECT pg_read_file('PG_VERSION')
== server file in binary | all 42501
SELECT pg_read_binary_file('PG_VERSION')
== server folder | all 42501
SELECT pg_ls_dir('base')
== server file facts | all 42501
SELECT pg_stat_file('base')
== WAL files | all 42501
SELECT * FROM pg_ls_waldir()
== temporary files | all 42501
SELECT * FROM pg_ls_tmpdir()
== log file | all 42501
SELECT pg_current_logfile()
== memory contexts | all 42501
SELECT * FROM pg_backend_memory_contexts
== shared memory | all 42501
SELECT * FROM pg_shmem_allocations
== reload | all 42501
SELECT pg_reload_conf()
== terminate | all 42501
SELECT pg_terminate_backend(1)
== promote | all 42501
SELECT pg_promote()
== alter system | all 42501
ALTER SYSTEM SET log_statement = 'all'
== load | all 42501/58P01
LOAD '/tmp/evil.so'
== log_statement_stats | all 42501
SET log_statement_stats = on
== session_preload_libraries | all 42501
SET session_preload_libraries = 'auto_explain'
== libraries of one's own for later sessions | all ok
SET local_preload_libraries = 'auto_explain'
== logical decoding | all 42501/55000
SELECT pg_create_logical_replication_slot('s', 'test_decoding')
