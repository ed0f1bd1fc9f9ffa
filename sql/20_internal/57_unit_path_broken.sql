CREATE FUNCTION dp._unit_path_broken(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  policy dp.relation_policy;
  source oid := relation;
BEGIN
  SELECT * INTO policy FROM dp.relation_policy p WHERE p.relation = _unit_path_broken.relation;
  FOR i IN 1 .. COALESCE(cardinality(policy.unit_path), 0) - 1 LOOP
    IF (SELECT count(DISTINCT k.confrelid) FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
        WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = source AND a.attname = policy.unit_path[i]) > 1 THEN
      RETURN true;
    END IF;
    SELECT k.confrelid INTO source FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
    WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = source AND a.attname = policy.unit_path[i] ORDER BY k.oid LIMIT 1;
    IF NOT EXISTS (SELECT FROM dp.relation_policy q WHERE q.relation = source AND q.dataset = policy.dataset
                     AND COALESCE(q.unit_path, ARRAY[q.unit_column]) = policy.unit_path[i + 1:] AND q.other_units IS NULL) THEN
      RETURN true;
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM unnest(policy.other_units) u WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = u AND a.attnum > 0 AND NOT a.attisdropped)) THEN
    RETURN true;
  END IF;
  RETURN policy.unit_path IS NOT NULL
    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attname = policy.unit_path[cardinality(policy.unit_path)] AND a.attnum > 0 AND NOT a.attisdropped);
END $$;
COMMENT ON FUNCTION dp._unit_path_broken(regclass) IS 'True when a foreign key, a step''s protection or the last column of a relation''s unit_path is gone, or a step has foreign keys to two relations or another unit than the rest of the path: what is left of the path would name another unit (composition.md 1.3).';
REVOKE ALL ON FUNCTION dp._unit_path_broken(regclass) FROM PUBLIC;
