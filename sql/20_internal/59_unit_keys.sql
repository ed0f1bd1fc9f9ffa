CREATE FUNCTION dp._unit_keys(relation oid, OUT columns name[], OUT rest name[], OUT target oid, OUT target_column name)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  policy dp.relation_policy;
  source oid := _unit_keys.relation;
  step record;
  kept integer := 1;
BEGIN
  SELECT * INTO policy FROM dp.relation_policy p WHERE p.relation = _unit_keys.relation;
  IF num_nonnulls(policy.unit_column, policy.unit_path) = 0 THEN
    RETURN;
  END IF;
  columns := COALESCE(policy.unit_path[1], policy.unit_column) || policy.other_units;
  FOR i IN 1 .. COALESCE(cardinality(policy.unit_path), 0) - 1 LOOP
    SELECT k.confrelid, r.attname INTO step
    FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
    JOIN pg_attribute r ON r.attrelid = k.confrelid AND r.attnum = k.confkey[1]
    WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = source
      AND a.attname = policy.unit_path[i] ORDER BY k.oid LIMIT 1;
    IF i = 1 THEN
      target := step.confrelid;
      target_column := step.attname;
    END IF;
    -- a step that references the next column of the path itself: both hold the same value
    IF step.attname IS DISTINCT FROM policy.unit_path[i + 1] THEN
      kept := i + 1;
    END IF;
    source := step.confrelid;
  END LOOP;
  rest := COALESCE(policy.unit_path[2:kept], '{}');
  IF rest = '{}' THEN
    target := NULL;
    target_column := NULL;
  END IF;
END $$;
COMMENT ON FUNCTION dp._unit_keys(oid) IS 'Columns of a protected relation whose values lead to its units; rest, the columns that follow after the first foreign key (none: the values are the units'' keys), and the relation and column that this key references. NULL for units that are rows.';
REVOKE ALL ON FUNCTION dp._unit_keys(oid) FROM PUBLIC;

CREATE FUNCTION dp._foreign_keys(relation oid) RETURNS TABLE (key oid, columns name[], target oid, referenced name[])
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
  -- rows of a relation are in its partitions and children too, which may have keys of their own. Not in the name of a
  -- chunk: TimescaleDB makes one because a row was written, and copies the hypertable's keys to it
  RETURN QUERY
  WITH RECURSIVE holding AS (
    SELECT _foreign_keys.relation AS oid
    UNION SELECT i.inhrelid FROM holding h JOIN pg_inherits i ON i.inhparent = h.oid WHERE NOT dp._hypertable(i.inhparent)
  )
  SELECT k.oid,
    ARRAY(SELECT a.attname FROM unnest(k.conkey) WITH ORDINALITY o(attnum, i) JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = o.attnum ORDER BY o.i),
    whole.oid,
    ARRAY(SELECT a.attname FROM unnest(k.confkey) WITH ORDINALITY o(attnum, i) JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = o.attnum ORDER BY o.i)
  FROM holding h JOIN pg_constraint k ON k.conrelid = h.oid AND k.contype = 'f' AND k.conparentid = 0 AND NOT dp._is_chunk(k.confrelid)
  -- what is said of a partition is declared of the whole: the protected one, else the topmost
  CROSS JOIN LATERAL (
    WITH RECURSIVE above AS (
      SELECT k.confrelid AS oid, 0 AS level
      UNION SELECT i.inhparent, v.level + 1 FROM above v JOIN pg_inherits i ON i.inhrelid = v.oid
    )
    SELECT v.oid FROM above v ORDER BY v.oid IN (SELECT p.relation FROM dp.relation_policy p) DESC, v.level DESC, v.oid LIMIT 1
  ) whole;
END $$;
COMMENT ON FUNCTION dp._foreign_keys(oid) IS 'The foreign keys of a relation''s rows, those of partitions and children among them, with the relation that they lead to: of a partition, the whole.';
REVOKE ALL ON FUNCTION dp._foreign_keys(oid) FROM PUBLIC;
