CREATE FUNCTION dp._unique_keys(relation regclass) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_agg((SELECT jsonb_agg(a.attname ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)) ORDER BY k.oid)
  FROM pg_constraint k JOIN pg_index x ON x.indexrelid = k.conindid JOIN pg_class c ON c.oid = k.conrelid
  WHERE k.conrelid = relation AND k.contype IN ('p', 'u') AND x.indisunique AND x.indisvalid AND x.indimmediate AND NOT x.indisexclusion
    AND NOT (c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) AND NOT dp._hypertable(c.oid))
$$;
COMMENT ON FUNCTION dp._unique_keys(regclass) IS 'Column sets that no two rows of a relation share, over all rows that SELECT reads: none if inheritance children may repeat a key. Constraints only: their equality is the columns'' own.';
REVOKE ALL ON FUNCTION dp._unique_keys(regclass) FROM PUBLIC;
