CREATE FUNCTION dp._public_of(schema_name name, relation_name name) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object(
    'oid', c.oid::bigint, 'schema', n.nspname, 'name', c.relname, 'unique_keys', dp._unique_keys(c.oid),
    'readable', has_schema_privilege('dp_owner', n.oid, 'USAGE') AND has_table_privilege('dp_owner', c.oid, 'SELECT') AND NOT c.relrowsecurity,
    'part_protected', EXISTS (SELECT FROM dp._protected_kin(c.oid)),
    'columns', (SELECT jsonb_agg(jsonb_build_object(
                  'name', a.attname, 'type_oid', t.base::bigint, 'type_name', format_type(t.base, NULL), 'typmod', t.typmod,
                  'deterministic', COALESCE(co.collisdeterministic, true),
                  'collation', CASE WHEN a.attcollation <> ty.typcollation THEN format('%I.%I', cn.nspname, co.collname) END,
                  'labels', (SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.base),
                  'policy', NULL) ORDER BY a.attnum)
                FROM pg_attribute a
                JOIN pg_type ty ON ty.oid = a.atttypid
                CROSS JOIN LATERAL dp._base_type(a.atttypid, a.atttypmod) t
                LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (b.columns IS NULL OR a.attname = ANY (b.columns))))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN dp.publication b ON b.relation = c.oid AND b.kind = 'public'
  WHERE n.nspname = schema_name AND c.relname = relation_name AND c.relkind IN ('r', 'p')
$$;
COMMENT ON FUNCTION dp._public_of(name, name) IS 'What the compiler needs about one public table: published columns, unique keys, and whether the engine may read it; NULL if it is not public.';
REVOKE ALL ON FUNCTION dp._public_of(name, name) FROM PUBLIC;
