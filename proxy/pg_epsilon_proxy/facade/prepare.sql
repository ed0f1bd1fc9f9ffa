-- Readies a facade database; superuser, in that database, repeatable. One implicit transaction.
-- Input: pg_epsilon.private_database (name of the private database when it is in this cluster, else empty).

CREATE SCHEMA IF NOT EXISTS dp;
ALTER SCHEMA dp OWNER TO dp_facade;
REVOKE ALL ON SCHEMA dp FROM PUBLIC;
GRANT USAGE ON SCHEMA dp TO dp_analyst, dp_gateway;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO dp_facade;

-- The net. IMMUTABLE is the point: the planner folds the call, so planning any statement that would read the table raises.
CREATE OR REPLACE FUNCTION dp.refuse(relation text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'DP002', MESSAGE = pg_catalog.format('rows of %s are private', relation),
    HINT = 'Ask for aggregates directly in the statement sent to the proxy: functions, views and dynamic SQL cannot be rewritten. What was published a moment ago: try again.';
END $$;
COMMENT ON FUNCTION dp.refuse(text) IS 'Raises DP002: the condition of the policy on every protected relation';

-- A refusal of the proxy is raised here, so that error and transaction state are PostgreSQL's own.
CREATE OR REPLACE FUNCTION dp.raise(sqlstate text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF $3 IS NULL AND $4 IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = $1, MESSAGE = $2;
  ELSIF $3 IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = $1, MESSAGE = $2, HINT = $4;
  ELSIF $4 IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = $1, MESSAGE = $2, DETAIL = $3;
  END IF;
  RAISE EXCEPTION USING ERRCODE = $1, MESSAGE = $2, DETAIL = $3, HINT = $4;
END $$;
COMMENT ON FUNCTION dp.raise(text, text, text, text) IS 'Raises the error it is given';

-- Types of result columns as the splice spells them. search_path is pg_catalog alone, so that the implicit pg_temp counts as first
-- and a type shadowed there comes out qualified; a column's own domain, which RowDescription hides, is given back.
CREATE OR REPLACE FUNCTION dp.column_types(table_oids oid[], attnums int2[], type_oids oid[], typmods int4[]) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  SELECT COALESCE(array_agg(format_type(COALESCE(d.oid, t.oid), CASE WHEN d.oid IS NULL THEN u.typmod ELSE -1 END)
      || CASE WHEN a.attcollation <> COALESCE(d.typcollation, t.typcollation)
              THEN ' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname) ELSE '' END ORDER BY u.position), '{}')
  FROM unnest(table_oids, attnums, type_oids, typmods) WITH ORDINALITY AS u(relation, attnum, type, typmod, position)
  LEFT JOIN pg_type t ON t.oid = u.type
  LEFT JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.attnum AND u.attnum > 0
  LEFT JOIN pg_type d ON d.oid = a.atttypid AND d.typtype = 'd'
  LEFT JOIN pg_collation c ON c.oid = a.attcollation
  LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
$$;
COMMENT ON FUNCTION dp.column_types(oid[], int2[], oid[], int4[]) IS
  'Type of each result column of a RowDescription as SQL text, with typmod and COLLATE';

-- PostgreSQL has no median. Over protected relations the proxy answers it; over released values it is the lower median, as there.
CREATE OR REPLACE FUNCTION dp.median_step(state anyarray, value anyelement) RETURNS anyarray
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT array_append(state, value) $$;
COMMENT ON FUNCTION dp.median_step(anyarray, anyelement) IS 'Part of median(x)';
CREATE OR REPLACE FUNCTION dp.median_end(state anyarray) RETURNS anyelement
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY v) FROM unnest(state) v
$$;
COMMENT ON FUNCTION dp.median_end(anyarray) IS 'Part of median(x)';
CREATE OR REPLACE AGGREGATE dp.median(anyelement) (SFUNC = dp.median_step, STYPE = anyarray, INITCOND = '{}', FINALFUNC = dp.median_end);
COMMENT ON AGGREGATE dp.median(anyelement) IS 'The lower median, percentile_disc(0.5)';

-- One list of what is cluster-wide: closed below, and looked at again by the check.
CREATE OR REPLACE FUNCTION dp.open_surfaces() RETURNS TABLE (kind text, name text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'FUNCTION', p.oid::regprocedure::text
  FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE') AND (
    p.proname ~ '^pg_stat_get_(db_|activity|backend_|progress|wal|bgwriter|checkpoint|slru|archiver|io|replication|subscription|buf_|recovery)'
    OR p.proname ~ '^(lo_|loread|lowrite)' OR p.proname ~ '^pg_(logical_|replication_|available_wal|wal_summary|get_wal_summ)'
    OR p.proname IN ('pg_database_size', 'pg_tablespace_size', 'pg_lock_status', 'pg_blocking_pids', 'pg_safe_snapshot_blocking_pids',
      'pg_prepared_xact', 'pg_export_snapshot', 'pg_get_replication_slots', 'pg_current_wal_lsn', 'pg_current_wal_insert_lsn',
      'pg_current_wal_flush_lsn', 'pg_last_wal_receive_lsn', 'pg_last_wal_replay_lsn', 'pg_last_xact_replay_timestamp',
      'pg_relation_filepath', 'pg_config', 'pg_terminate_backend', 'pg_cancel_backend', 'pg_control_system', 'pg_control_checkpoint',
      'pg_control_recovery', 'pg_control_init', 'pg_xact_commit_timestamp', 'pg_xact_commit_timestamp_origin',
      'pg_last_committed_xact', 'pg_notification_queue_usage', 'pg_show_replication_origin_status', 'pg_stat_have_stats'))
  UNION ALL
  SELECT 'TABLE', c.oid::regclass::text
  FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace
    AND c.relname IN ('pg_shdepend', 'pg_db_role_setting', 'pg_largeobject_metadata')
    AND (has_table_privilege('public', c.oid, 'SELECT') OR has_any_column_privilege('public', c.oid, 'SELECT'))
$$;
COMMENT ON FUNCTION dp.open_surfaces() IS 'Cluster-wide functions and catalogs that PUBLIC may still read here; must be none';

-- A schema of its own, which is on nobody's search_path: clients list tables by that.
CREATE SCHEMA IF NOT EXISTS dp_state;
ALTER SCHEMA dp_state OWNER TO dp_facade;
REVOKE ALL ON SCHEMA dp_state FROM PUBLIC;
GRANT USAGE ON SCHEMA dp_state TO dp_gateway;
CREATE TABLE IF NOT EXISTS dp_state.facade_state (
  singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version    bigint NOT NULL,
  definition jsonb
);
INSERT INTO dp_state.facade_state (version) VALUES (0) ON CONFLICT DO NOTHING;
COMMENT ON TABLE dp_state.facade_state IS 'Policy version that this facade shows, and the definition it was built from';

DO $$
DECLARE
  facade  name := pg_catalog.current_database();
  private text := NULLIF(pg_catalog.current_setting('pg_epsilon.private_database', true), '');
  item    text;
  path    text;
  shown   text;
BEGIN
  FOR item IN SELECT 'ROUTINE ' || p.oid::regprocedure FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'dp'::regnamespace
      AND p.proname IN ('refuse', 'raise', 'column_types', 'open_surfaces', 'median', 'median_step', 'median_end') UNION ALL SELECT 'TABLE dp_state.facade_state' LOOP
    EXECUTE 'ALTER ' || item || ' OWNER TO dp_facade';
    EXECUTE 'REVOKE ALL ON ' || item || ' FROM PUBLIC';
  END LOOP;
  GRANT EXECUTE ON FUNCTION dp.refuse(text), dp.raise(text, text, text, text), dp.column_types(oid[], int2[], oid[], int4[]) TO dp_analyst;
  GRANT EXECUTE ON ROUTINE dp.median(anyelement) TO dp_analyst;

  FOR item IN SELECT pg_catalog.format('REVOKE ALL ON %s %s FROM PUBLIC', s.kind, s.name) FROM dp.open_surfaces() s LOOP
    EXECUTE item;
  END LOOP;

  EXECUTE pg_catalog.format('REVOKE ALL ON DATABASE %I FROM PUBLIC', facade);
  EXECUTE pg_catalog.format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO dp_analyst', facade);
  EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO dp_gateway', facade);
  -- dp_facade makes schemas, and extensions that are marked trusted.
  EXECUTE pg_catalog.format('GRANT CREATE ON DATABASE %I TO dp_facade', facade);
  IF private IS NOT NULL THEN
    EXECUTE pg_catalog.format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', private);
    EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO dp_gateway, dp_reader, dp_admin', private);
  END IF;

  FOR item IN SELECT pg_catalog.unnest(ARRAY['epsilon', 'rho', 'alpha', 'beta', 'mechanism', 'confidence', 'synthetic', 'synthetic_policy',
      'tau', 'notices', 'division', 'windows', 'workloads']) LOOP
    -- Empty means "not set": SHOW and RESET work in a new session, and the engine's defaults hold.
    EXECUTE pg_catalog.format('ALTER DATABASE %I SET %I = %L', facade, 'dp.' || item, '');
  END LOOP;
  -- Only a superuser can lift this one, so an analyst's sorts cannot fill the disk.
  EXECUTE pg_catalog.format('ALTER DATABASE %I SET temp_file_limit = %L', facade, '2GB');
  path := '"$user", public, dp';
  -- Literals, ORDER BY and names must mean the same on both sides.
  FOR item IN SELECT pg_catalog.unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
      WHERE d.datname = private AND s.setrole = 0 LOOP
    IF pg_catalog.lower(pg_catalog.split_part(item, '=', 1)) = ANY (ARRAY['timezone', 'datestyle', 'intervalstyle']) THEN
      EXECUTE pg_catalog.format('ALTER DATABASE %I SET %I = %L', facade, pg_catalog.split_part(item, '=', 1),
        pg_catalog.substr(item, pg_catalog.strpos(item, '=') + 1));
    ELSIF item LIKE 'search_path=%' THEN
      path := pg_catalog.substr(item, 13);
      IF path !~ '(^|,) *dp *(,|$)' THEN path := path || ', dp'; END IF;
    END IF;
  END LOOP;
  EXECUTE pg_catalog.format('ALTER DATABASE %I SET search_path = %s', facade, path);

  -- pgAdmin reads these views while it connects and gives up on an error; their functions are closed above. Here they show nothing.
  PERFORM pg_catalog.set_config('allow_system_table_mods', 'on', true);
  FOREACH item IN ARRAY ARRAY['pg_replication_slots', 'pg_stat_gssapi'] LOOP
    SELECT pg_catalog.string_agg(pg_catalog.format('NULL::%s AS %I', pg_catalog.format_type(a.atttypid, a.atttypmod), a.attname), ', ' ORDER BY a.attnum)
      INTO shown FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = ('pg_catalog.' || item)::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped;
    EXECUTE pg_catalog.format('CREATE OR REPLACE VIEW pg_catalog.%I AS SELECT %s WHERE false', item, shown);
  END LOOP;
  PERFORM pg_catalog.set_config('allow_system_table_mods', 'off', true);
END $$;
