CREATE FUNCTION dp._protect(relation regclass, dataset text, unit_column name, unit_path name[], max_rows_per_unit integer, max_rows bigint, scale numeric, partition_by name, grid jsonb, other_units name[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  kind "char";
  key text;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.protect');
  SELECT c.relkind, format('%I.%I', n.nspname, c.relname) INTO kind, key FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
  IF kind NOT IN ('r', 'p') OR EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relpersistence = 't') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not a base table', relation), HINT = 'Protect the tables beneath: a view is expanded, and derived tables can be neither protected nor published.';
  END IF;
  IF key LIKE 'pg\_catalog.%' OR key LIKE 'information\_schema.%' OR key LIKE 'dp.%' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'system tables cannot be protected', HINT = 'Protect a table that holds people''s rows.';
  END IF;
  IF NOT EXISTS (SELECT FROM dp.dataset d WHERE d.name = _protect.dataset) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'CALL dp.create_dataset(name, epsilon => ...) first.';
  END IF;
  IF EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = _protect.relation) THEN
    RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('%s is already protected', relation), HINT = 'CALL dp.unprotect(relation) first; its accounts stay.';
  END IF;
  IF EXISTS (SELECT FROM dp.synthetic s WHERE s.synthetic = _protect.relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is registered as a synthetic table', relation), HINT = 'Its rows are public. CALL dp.unregister_synthetic(synthetic) first, if they should be no longer.';
  END IF;
  IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is a partition or an inheritance child', relation), HINT = 'Protect its parent.';
  END IF;
  IF EXISTS (SELECT FROM dp._protected_kin(relation)) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('a part of %s is protected by itself', relation), HINT = 'One row has one account: CALL dp.unprotect(part) first, then protect the whole.';
  END IF;
  IF EXISTS (SELECT FROM dp._protected_by_extension(relation)) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s may share rows with %s, which is protected', relation, (SELECT min(k::text) FROM dp._protected_by_extension(relation) k)),
      HINT = 'An extension made one of them for rows of the other, or does not say: protect the table that rows are written to.';
  END IF;
  IF (SELECT c.relrowsecurity AND pg_get_userbyid(c.relowner) <> 'dp_owner' FROM pg_class c WHERE c.oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('row-level security of %s would filter what the engine counts', relation), HINT = 'Answers must be about all rows: disable row-level security on it, or protect another table.';
  END IF;
  -- a table that was renamed or moved while unprotected keeps its accounts; a new one under an old name takes that name's
  key := COALESCE((SELECT i.relation_key FROM dp.relation_identity i WHERE i.relation = _protect.relation), key);
  INSERT INTO dp.relation_identity (relation, relation_key) VALUES (relation, key) ON CONFLICT DO NOTHING;
  PERFORM dp._check_unit(relation, dataset, unit_column, unit_path);
  PERFORM dp._check_other_units(relation, unit_column, unit_path, other_units);
  IF partition_by IS NOT NULL OR grid IS NOT NULL THEN
    PERFORM dp._check_grid(relation, dataset, partition_by, grid);
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = partition_by AND a.attgenerated <> '') THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('column %I of %s is generated and cannot be a partition key', partition_by, relation),
        HINT = 'A row may not move between partition accounts, and the trigger that sees to it runs before the value is generated. Use an ordinary column, filled by whoever writes the row.';
    END IF;
    IF EXISTS (SELECT FROM dp._subscriptions(relation)) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('subscription %I writes %s, which can have no partition accounts', (SELECT min(s) FROM dp._subscriptions(relation) s), relation),
        HINT = 'Its worker would stop at the first update that moves a row to another partition. Leave partition_by and grid out, or end the subscription.';
    END IF;
  END IF;
  IF (SELECT d.unit FROM dp.dataset d WHERE d.name = _protect.dataset) = 'row' AND max_rows_per_unit IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'max_rows_per_unit has no meaning for row units', HINT = 'Leave it out.';
  END IF;
  IF max_rows_per_unit <= 0 OR max_rows <= 0 OR scale < 1 OR scale IN ('NaN', 'Infinity') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'max_rows_per_unit, max_rows and scale must be at least 1', HINT = 'They are declared public bounds, never read off the data.';
  END IF;
  PERFORM dp._carry_spending(key, dataset);
  IF EXISTS (SELECT FROM dp.protection h WHERE h.relation_key = key AND h.dataset = _protect.dataset AND h.grid IS NOT NULL
             AND grid IS NOT NULL AND (h.grid, h.partition_by) IS DISTINCT FROM (_protect.grid, _protect.partition_by)) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s was partitioned by another grid before', key), HINT = 'Leaf accounts are keyed by declared bounds and never change: use the old grid, or none.';
  END IF;
  INSERT INTO dp.protection AS h (relation_key, dataset, partition_by, grid) VALUES (key, dataset, partition_by, grid)
  ON CONFLICT ON CONSTRAINT protection_pkey DO UPDATE SET partition_by = COALESCE(h.partition_by, EXCLUDED.partition_by), grid = COALESCE(h.grid, EXCLUDED.grid), carried_to = NULL;
  INSERT INTO dp.relation_policy (relation, dataset, relation_key, unit_column, unit_path, other_units, max_rows_per_unit, max_rows, scale, partition_by, grid, data_version)
  VALUES (relation, dataset, key, unit_column, unit_path, other_units, max_rows_per_unit, max_rows, scale, partition_by, grid,
          1 + COALESCE((SELECT max(r.data_version) FROM dp.release r WHERE r.relation_key = key), 0));
  INSERT INTO dp.part (relation, relation_key) SELECT t.relid, key FROM pg_partition_tree(relation) t WHERE t.relid <> relation ON CONFLICT DO NOTHING;
  PERFORM dp._warn_half_declared(relation);
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) IS 'Checks and records a protection; dp.protect adds what only the table''s owner can do.';
REVOKE ALL ON FUNCTION dp._protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._protect(regclass, text, name, name[], integer, bigint, numeric, name, jsonb, name[]) TO dp_admin;
