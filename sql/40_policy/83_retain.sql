CREATE FUNCTION dp._removal(relation regclass, until text) RETURNS TABLE (step text, statement text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
  key name;
  place smallint;
  kind text := format_type(dp._partition_type(relation), NULL);
  library name;
  along boolean := false;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.retain');
  SELECT a.attname, a.attnum INTO key, place FROM dp.relation_policy p JOIN pg_attribute a ON a.attrelid = p.relation AND a.attname = p.partition_by WHERE p.relation = _removal.relation;
  -- rows that a foreign key refers to go one by one, and the key says what becomes of those that do
  IF NOT EXISTS (SELECT FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = relation) THEN
    IF dp._hypertable(relation) THEN
      EXECUTE 'SELECT d.column_name = $2 AND d.partitioning_func IS NULL FROM _timescaledb_catalog.dimension d JOIN _timescaledb_catalog.hypertable h ON h.id = d.hypertable_id JOIN pg_namespace n ON n.nspname = h.schema_name'
        ' JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name WHERE c.oid = $1 AND d.interval_length IS NOT NULL ORDER BY d.id LIMIT 1' INTO along USING relation::oid, key;
      -- the extension's own function, and nobody's beside it that the same call could mean
      SELECT n.nspname INTO library FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
      WHERE e.extname = 'timescaledb' AND (SELECT bool_and(EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'))
                                           FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname = 'drop_chunks');
      IF along AND library IS NOT NULL THEN
        RETURN QUERY SELECT 'drop', format('SELECT count(*) FROM %I.drop_chunks(%L::regclass, older_than => %L::%s)', library, relation, until, kind);
      END IF;
    END IF;
    RETURN QUERY
      WITH part AS (
        SELECT h.inhrelid AS oid, substring(pg_get_expr(c.relpartbound, c.oid) FROM ' TO \(''?([^'']*?)''?\)$') AS upper
        FROM pg_partitioned_table t JOIN pg_opclass o ON o.oid = t.partclass[0] AND o.opcdefault JOIN pg_inherits h ON h.inhparent = t.partrelid JOIN pg_class c ON c.oid = h.inhrelid
        WHERE t.partrelid = _removal.relation AND t.partstrat = 'r' AND t.partnatts = 1 AND t.partattrs[0] = place
          -- dropping a foreign table leaves its rows where they are
          AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) k JOIN pg_class f ON f.oid = k.relid WHERE f.relkind = 'f')
      )
      SELECT 'drop', format('DROP TABLE %s', p.oid::regclass) FROM part p
      WHERE CASE WHEN p.upper IS NULL OR p.upper = 'MAXVALUE' THEN false WHEN kind = 'date' THEN p.upper::date <= until::date WHEN kind = 'timestamp without time zone' THEN p.upper::timestamp <= until::timestamp
                 WHEN kind = 'timestamp with time zone' THEN p.upper::timestamptz <= until::timestamptz ELSE p.upper::bigint <= until::bigint END
      ORDER BY p.oid;
  END IF;
  RETURN QUERY SELECT o.step, format(o.statement, relation, key, until, kind)
    FROM (VALUES ('delete', 'DELETE FROM %s WHERE %I OPERATOR(pg_catalog.<) %L::%s'), ('look', 'SELECT EXISTS (SELECT FROM %s WHERE %I OPERATOR(pg_catalog.<) %L::%s)')) AS o(step, statement);
END $$;
COMMENT ON FUNCTION dp._removal(regclass, text) IS 'The statements by which the owner of a relation removes all rows whose partition key is below a value: chunks or partitions that are wholly below it are dropped, other rows deleted; then he looks whether any stayed. Read off the catalogue, never off rows.';
REVOKE ALL ON FUNCTION dp._removal(regclass, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._removal(regclass, text) TO dp_admin;

CREATE PROCEDURE dp.retain(relation regclass, before text, keep_counts boolean)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET row_security = off AS $$
DECLARE
  place jsonb;
  until text;
  removing text;
  stay boolean;
BEGIN
  IF num_nulls(relation, before, keep_counts) > 0 THEN
    RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'dp.retain takes a relation, a value of its partition key, and a choice: none of them is NULL',
      HINT = 'CALL dp.retain(''readings'', ''2026-01-03'', keep_counts => true): sealed partitions before it are answered from their counts still; false: none of their rows is counted any more.';
  END IF;
  PERFORM dp._may_seal(relation, 'dp.retain');
  -- refused before anybody waits, and again behind the barrier
  place := dp._behind_barrier(relation, 'dp.retain', 'boundary', jsonb_build_object('until', before, 'keep_counts', keep_counts));
  until := place ->> 'until';
  IF dp._partition_type(relation) IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) AND (place ->> 'asked')::timestamptz > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is in the future: rows before it are still coming', before), HINT = format('CALL dp.retain(%L, (clock_timestamp() - interval ''90 days'')::text, keep_counts => %s)', relation, keep_counts);
  END IF;
  IF NOT (place ->> 'exact')::boolean THEN
    RAISE NOTICE 'dp.retain: % is inside a partition, rounded down to %', before, until;
  END IF;
  -- readers stay out only where something is dropped
  PERFORM dp._hold_writers(relation, 'dp.retain', EXISTS (SELECT FROM dp._removal(relation, until) r WHERE r.step = 'drop'));
  FOREACH removing IN ARRAY (SELECT array_agg(r.statement ORDER BY r.step DESC) FROM dp._removal(relation, until) r WHERE r.step <> 'look') LOOP
    EXECUTE removing;
  END LOOP;
  EXECUTE (SELECT r.statement FROM dp._removal(relation, until) r WHERE r.step = 'look') INTO stay;
  IF stay THEN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('rows of %s before %s stay when they are deleted', relation, until), HINT = 'A trigger or a rule of yours on DELETE keeps them: see \d of the table.';
  END IF;
  PERFORM dp._behind_barrier(relation, 'dp.retain', 'retain', jsonb_build_object('until', until, 'keep_counts', keep_counts));
  RAISE NOTICE 'dp.retain: rows of % before % are removed; %', relation, until,
    CASE WHEN keep_counts THEN 'sealed partitions are answered from their counts, and answers say so' ELSE 'none of them is counted any more; what was paid stays paid' END;
END $$;
COMMENT ON PROCEDURE dp.retain(regclass, text, boolean) IS
  'Removes all rows whose partition key is below a value, rounded down to where a partition of the declared grid ends: chunks and partitions that are wholly below it are dropped, other rows deleted. keep_counts => true: sealed partitions are answered from their counts still (all have to be sealed); false: none of their rows is counted any more. Either way answers and EXPLAIN say so, and accounts stay as they are. SQLSTATE 22004: NULL; DP005: no such value, in the future, or not sealed; 55P03: somebody uses the table; 55000: a trigger keeps rows; 42501: not yours.';
REVOKE ALL ON PROCEDURE dp.retain(regclass, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.retain(regclass, text, boolean) TO dp_admin;
