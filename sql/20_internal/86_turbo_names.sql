CREATE FUNCTION dp._relation_name(relation regclass) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION dp._relation_name(regclass) IS 'Schema and name of a relation, as the engine''s calls take them.';
REVOKE ALL ON FUNCTION dp._relation_name(regclass) FROM PUBLIC;

CREATE FUNCTION dp._partition_type(relation regclass) RETURNS oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (dp._base_type(a.atttypid, a.atttypmod)).base FROM dp.relation_policy p JOIN pg_attribute a ON a.attrelid = p.relation AND a.attname = p.partition_by
  WHERE p.relation = _partition_type.relation
$$;
COMMENT ON FUNCTION dp._partition_type(regclass) IS 'The type of a relation''s partition key; NULL without partitions.';
REVOKE ALL ON FUNCTION dp._partition_type(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._partition_type(regclass) TO dp_admin;
