CREATE FUNCTION dp._policy_of(schema_name name, relation_name name) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE rel AS (
    SELECT c.oid, c.relkind, n.nspname, c.relname, p.*, dp._partition_key_held(p.relation) AS held
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN dp.relation_policy p ON p.relation = c.oid
    WHERE n.nspname = schema_name AND c.relname = relation_name
  ), hop AS (
    SELECT 0 AS i, rel.oid AS source, rel.unit_path AS path FROM rel
    UNION ALL
    SELECT hop.i + 1, f.confrelid, hop.path
    FROM hop JOIN pg_attribute a ON a.attrelid = hop.source AND a.attname = hop.path[hop.i + 1]
    JOIN LATERAL (SELECT k.confrelid FROM pg_constraint k
                  WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = hop.source AND k.conkey = ARRAY[a.attnum]
                  ORDER BY k.oid LIMIT 1) f ON true
    WHERE hop.i + 1 < cardinality(hop.path)
  )
  SELECT jsonb_build_object(
    'version', (SELECT version FROM dp.policy_state),
    'oid', rel.oid::bigint, 'schema', rel.nspname, 'name', rel.relname,
    'relation_key', rel.relation_key, 'data_version', rel.data_version, 'data_as_of', rel.as_of::timestamptz(0)::text, 'refresh_every', extract(epoch FROM rel.refresh_every)::bigint,
    'unit_column', rel.unit_column, 'other_units', to_jsonb(rel.other_units), 'max_rows_per_unit', rel.max_rows_per_unit, 'max_rows', rel.max_rows,
    'scale', rel.scale::text, 'partition_by', CASE WHEN rel.held THEN rel.partition_by END, 'grid', CASE WHEN rel.held THEN rel.grid END,
    'published', EXISTS (SELECT FROM dp.publication b WHERE b.relation = rel.oid AND b.kind = 'protected'),
    'unit_path', (SELECT jsonb_agg(jsonb_build_object(
                      'column', hop.path[hop.i + 1], 'schema', tn.nspname, 'name', t.relname, 'only', COALESCE(t.relkind = 'r' AND NOT dp._hypertable(t.oid), false),
                      'referenced', ref.attname, 'same', COALESCE(ref.same, false)) ORDER BY hop.i)
                  FROM hop LEFT JOIN hop nxt ON nxt.i = hop.i + 1
                  LEFT JOIN LATERAL (SELECT ra.attname,
                                       (SELECT st.base = rt.base AND sa.attcollation = ra.attcollation
                                           OR st.base IN (20, 21, 23, 1700) AND rt.base IN (20, 21, 23, 1700)
                                        FROM dp._base_type(sa.atttypid, sa.atttypmod) st, dp._base_type(ra.atttypid, ra.atttypmod) rt) AS same
                                     FROM pg_constraint k
                                     JOIN pg_attribute sa ON sa.attrelid = hop.source AND sa.attname = hop.path[hop.i + 1]
                                     JOIN pg_attribute ra ON ra.attrelid = k.confrelid AND ra.attnum = k.confkey[1]
                                     WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = hop.source
                                       AND k.conkey = ARRAY[sa.attnum] ORDER BY k.oid LIMIT 1) ref ON nxt.i IS NOT NULL
                  LEFT JOIN pg_class t ON t.oid = nxt.source LEFT JOIN pg_namespace tn ON tn.oid = t.relnamespace
                  WHERE hop.path IS NOT NULL),
    'primary_key', (SELECT jsonb_agg(a.attname ORDER BY o.i)
                    FROM pg_index x, unnest(x.indkey::smallint[]) WITH ORDINALITY o(attnum, i), pg_attribute a
                    WHERE x.indrelid = rel.oid AND x.indisprimary AND x.indisvalid AND NOT (rel.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = rel.oid) AND NOT dp._hypertable(rel.oid)) AND a.attrelid = rel.oid AND a.attnum = o.attnum),
    'unique_keys', dp._unique_keys(rel.oid),
    'unit_path_broken', dp._unit_path_broken(rel.oid), 'part_protected', EXISTS (SELECT FROM dp._protected_kin(rel.oid)),
    'linked', EXISTS (SELECT FROM pg_constraint k JOIN dp.relation_policy q ON q.relation IN (k.conrelid, k.confrelid) AND q.relation <> rel.oid
                      WHERE k.contype = 'f' AND rel.oid IN (k.conrelid, k.confrelid) AND q.dataset = rel.dataset),
    'dataset', (SELECT jsonb_build_object('name', d.name, 'unit', d.unit, 'accountant', d.accountant,
                  'epsilon', d.epsilon::text, 'delta_rdp', d.delta_rdp::text, 'delta_add', d.delta_add::text,
                  'orders', (SELECT jsonb_agg(o::text) FROM unnest(d.orders) o),
                  'default_epsilon', d.default_epsilon::text)
                FROM dp.dataset d WHERE d.name = rel.dataset),
    'columns', (SELECT jsonb_agg(jsonb_build_object(
                  'name', a.attname, 'type_oid', t.base::bigint, 'type_name', format_type(t.base, NULL), 'typmod', t.typmod,
                  'deterministic', COALESCE(co.collisdeterministic, true),
                  'collation', CASE WHEN a.attcollation <> ty.typcollation THEN format('%I.%I', cn.nspname, co.collname) END,
                  'labels', (SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.base),
                  'published', EXISTS (SELECT FROM dp.publication b WHERE b.relation = rel.oid AND (b.columns IS NULL OR a.attname = ANY (b.columns))),
                  'policy', (SELECT to_jsonb(cp) - 'relation' - 'attnum' - 'attname' FROM dp.column_policy cp
                             WHERE cp.relation = rel.oid AND cp.attname = a.attname
                               AND EXISTS (SELECT FROM dp.publication b WHERE b.relation = rel.oid AND (b.columns IS NULL OR a.attname = ANY (b.columns)))
                               AND (cp.attnum = a.attnum OR (SELECT dp._frozen(d.incarnation) FROM dp.dataset d WHERE d.name = rel.dataset)))) ORDER BY a.attnum)
                FROM pg_attribute a
                JOIN pg_type ty ON ty.oid = a.atttypid
                CROSS JOIN LATERAL dp._base_type(a.atttypid, a.atttypmod) t
                LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
                WHERE a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped))
  FROM rel
$$;
COMMENT ON FUNCTION dp._policy_of(name, name) IS 'Everything declared and structural that the compiler needs about one protected relation; NULL if it is not protected. Public facts only.';
REVOKE ALL ON FUNCTION dp._policy_of(name, name) FROM PUBLIC;
