-- The shape of everything published, for the facade (facade-and-channel.md §5): read from the catalogs, never from a dump, because
-- CHECK, DEFAULT, index predicates, policies, partition bounds and comments carry private literals. Names are bare, to be quoted by
-- the reader; types, collations and opclasses are quoted text, as format_type gives it under pg_catalog. A column whose type cannot be rebuilt from
-- its shape (a table's row type, a base type of no extension) is left out: what is not understood is not published.
-- jit: the planner thinks the recursion dear, and compiling its 700 expressions takes twenty times as long as running them.
CREATE FUNCTION dp.facade_definition() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $facade$
WITH RECURSIVE published AS (
  SELECT c.oid, n.nspname, c.relname, c.relkind, p.kind, p.columns, p.comments
  FROM dp.publication p JOIN pg_class c ON c.oid = p.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname <> 'dp' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
), catalog_view AS (
  SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'dp' AND c.relkind IN ('v', 'm', 'r', 'p') AND has_table_privilege('dp_analyst', c.oid, 'SELECT')
), candidate AS (
  SELECT p.oid, p.proname, p.prosrc, COALESCE(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype AS types,
    l.lanname IN ('sql', 'plpgsql') AS plain, p.proname ~ '^dp_.*_(request|result)$' OR p.proname IN ('session_settings', 'grid') AS pure
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
  WHERE n.nspname = 'dp' AND p.prokind = 'f' AND has_function_privilege('dp_analyst', p.oid, 'EXECUTE')
    AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
), copied(oid, prosrc) AS (
  -- Functions of their arguments alone run on the facade too, with the helpers that their bodies name.
  SELECT oid, prosrc FROM candidate WHERE pure AND plain
  UNION
  SELECT c.oid, c.prosrc FROM copied u JOIN candidate c ON c.plain AND c.proname !~ '^dp_' AND u.prosrc ~ ('\mdp\.' || c.proname || '\(')
), routine AS (
  SELECT c.oid, c.proname, c.types, EXISTS (SELECT FROM copied u WHERE u.oid = c.oid) AS copied FROM candidate c
  WHERE c.proname ~ '^dp_' OR EXISTS (SELECT FROM copied u WHERE u.oid = c.oid)
), member AS (
  SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull
  FROM pg_attribute a
  JOIN (SELECT oid, columns FROM published UNION ALL SELECT oid, NULL FROM catalog_view) r ON r.oid = a.attrelid
  WHERE a.attnum > 0 AND NOT a.attisdropped AND (r.columns IS NULL OR a.attname = ANY (r.columns))
), type_class AS (
  SELECT t.oid, t.typname, t.typnamespace, n.nspname, t.typtype, t.typrelid, t.typbasetype, t.typtypmod, t.typcollation,
    t.typelem, e.extension,
    CASE WHEN t.typelem <> 0 AND t.typlen = -1 AND t.typcategory = 'A' THEN 'array'
         WHEN n.nspname IN ('pg_catalog', 'information_schema') THEN 'system'
         WHEN e.extension IS NOT NULL THEN 'extension'
         WHEN t.typtype IN ('e', 'd', 'r', 'm') THEN 'built'
         WHEN t.typtype = 'c' AND (SELECT c.relkind FROM pg_class c WHERE c.oid = t.typrelid) = 'c' THEN 'built'
         ELSE 'impossible' END AS class
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN LATERAL (
    SELECT d.refobjid AS extension FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid AND x.extname <> 'pg_epsilon'
    WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  ) e ON true
), reach(root, typ, depth) AS (
  SELECT root, root, 0 FROM (SELECT atttypid FROM member UNION SELECT unnest(types) FROM routine) AS roots(root)
  UNION
  SELECT r.root, step.typ, r.depth + 1
  FROM reach r JOIN type_class t ON t.oid = r.typ AND t.class IN ('array', 'built')
  CROSS JOIN LATERAL (
    SELECT t.typelem WHERE t.class = 'array'
    UNION ALL SELECT t.typbasetype WHERE t.class = 'built' AND t.typtype = 'd'
    UNION ALL SELECT a.atttypid FROM pg_attribute a
      WHERE t.class = 'built' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT g.rngsubtype FROM pg_range g WHERE t.class = 'built' AND g.rngtypid = t.oid
    UNION ALL SELECT g.rngtypid FROM pg_range g WHERE t.class = 'built' AND g.rngmultitypid = t.oid
  ) AS step(typ)
), possible AS (
  SELECT r.root FROM reach r JOIN type_class t ON t.oid = r.typ GROUP BY r.root HAVING NOT bool_or(t.class = 'impossible')
), shown_routine AS (
  SELECT r.* FROM routine r WHERE NOT EXISTS (SELECT FROM unnest(r.types) u WHERE u NOT IN (SELECT root FROM possible))
), shown AS (
  SELECT m.*, format_type(m.atttypid, m.atttypmod) AS type, NULLIF(m.attcollation, t.typcollation) AS own_collation
  FROM member m JOIN pg_type t ON t.oid = m.atttypid WHERE m.atttypid IN (SELECT root FROM possible)
), used_type AS (
  SELECT t.*, d.depth FROM type_class t
  JOIN (SELECT r.typ, max(r.depth) AS depth FROM reach r
        WHERE r.root IN (SELECT atttypid FROM shown UNION SELECT unnest(types) FROM shown_routine) GROUP BY r.typ) d ON d.typ = t.oid
), collation_name AS (
  SELECT c.oid, n.nspname, c.collname, c.collprovider, c.collisdeterministic, to_jsonb(c) AS facts,
    quote_ident(n.nspname) || '.' || quote_ident(c.collname) AS qualified
  FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
), built_attribute AS (
  SELECT u.oid, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod) AS type, NULLIF(a.attcollation, t.typcollation) AS own_collation
  FROM used_type u JOIN pg_attribute a ON a.attrelid = u.typrelid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid WHERE u.class = 'built' AND u.typtype = 'c'
), used_collation AS (
  SELECT c.* FROM collation_name c
  WHERE c.nspname <> 'pg_catalog' AND c.oid IN (
    SELECT own_collation FROM shown UNION SELECT own_collation FROM built_attribute
    UNION SELECT u.typcollation FROM used_type u WHERE u.class = 'built' AND u.typtype = 'd'
    UNION SELECT g.rngcollation FROM pg_range g JOIN used_type u ON u.oid = g.rngtypid AND u.class = 'built')
), used_extension(oid, depth) AS (
  SELECT u.extension, 0 FROM used_type u WHERE u.class = 'extension'
  UNION
  SELECT d.refobjid, e.depth + 1 FROM used_extension e
  JOIN pg_depend d ON d.classid = 'pg_extension'::regclass AND d.objid = e.oid AND d.refclassid = 'pg_extension'::regclass
), extension AS (
  SELECT x.extname, n.nspname, max(e.depth) AS depth
  FROM used_extension e JOIN pg_extension x ON x.oid = e.oid JOIN pg_namespace n ON n.oid = x.extnamespace
  WHERE x.extname NOT IN ('plpgsql', 'plpython3u') GROUP BY 1, 2
), key AS (
  SELECT k.oid, k.conrelid, k.conname, k.contype, k.conindid, i.indnullsnotdistinct, c.columns
  FROM pg_constraint k JOIN pg_index i ON i.indexrelid = k.conindid
  JOIN published p ON p.oid = k.conrelid AND p.kind = 'protected'
  CROSS JOIN LATERAL (SELECT jsonb_agg(s.attname ORDER BY u.position) AS columns, count(*) = count(s.attname) AS whole
    FROM unnest(k.conkey) WITH ORDINALITY AS u(attnum, position)
    LEFT JOIN shown s ON s.attrelid = k.conrelid AND s.attnum = u.attnum) c
  WHERE k.contype IN ('p', 'u') AND c.whole AND NOT COALESCE((to_jsonb(k) ->> 'conperiod')::boolean, false)
), reference AS (
  SELECT k.conname, k.conrelid, k.confrelid, c.columns, c.targets
  FROM pg_constraint k
  JOIN published p ON p.oid = k.conrelid AND p.kind = 'protected'
  JOIN key u ON u.conindid = k.conindid AND u.conrelid = k.confrelid
  CROSS JOIN LATERAL (SELECT jsonb_agg(s.attname ORDER BY u.position) AS columns, jsonb_agg(f.attname ORDER BY u.position) AS targets,
      count(*) = count(s.attname) AND count(*) = count(f.attname) AS whole
    FROM unnest(k.conkey, k.confkey) WITH ORDINALITY AS u(attnum, target, position)
    LEFT JOIN shown s ON s.attrelid = k.conrelid AND s.attnum = u.attnum
    LEFT JOIN shown f ON f.attrelid = k.confrelid AND f.attnum = u.target) c
  -- A key to a partitioned table has a twin for each of its partitions: the parent's constraint says it all.
  WHERE k.contype = 'f' AND c.whole
    AND NOT EXISTS (SELECT FROM pg_constraint parent WHERE parent.oid = k.conparentid AND parent.conrelid = k.conrelid)
), view_part AS (
  SELECT p.oid, d.refobjid,
    d.refclassid = 'pg_class'::regclass AND EXISTS (SELECT FROM published q WHERE q.oid = d.refobjid)
      AND (d.refobjsubid = 0 OR EXISTS (SELECT FROM shown s WHERE s.attrelid = d.refobjid AND s.attnum = d.refobjsubid)) AS public
  FROM published p JOIN pg_rewrite w ON w.ev_class = p.oid
  JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
    AND NOT (d.refclassid = 'pg_class'::regclass AND d.refobjid = p.oid)
  WHERE p.relkind = 'v' AND p.kind = 'protected'
), open_view AS (
  SELECT p.oid, jsonb_agg(DISTINCT jsonb_build_array(q.nspname, q.relname)) AS depends
  FROM published p JOIN view_part v ON v.oid = p.oid LEFT JOIN published q ON q.oid = v.refobjid
  WHERE p.columns IS NULL GROUP BY p.oid
  HAVING bool_and(v.public) AND NOT EXISTS (
    SELECT FROM member m WHERE m.attrelid = p.oid AND m.atttypid NOT IN (SELECT root FROM possible))
), column_list AS (
  SELECT s.attrelid, jsonb_agg(jsonb_build_object('name', s.attname, 'type', s.type, 'collation', c.qualified,
      'not_null', s.attnotnull,
      'comment', (SELECT col_description(s.attrelid, s.attnum) FROM published p WHERE p.oid = s.attrelid AND p.comments))
    ORDER BY s.attnum) AS columns
  FROM shown s LEFT JOIN collation_name c ON c.oid = s.own_collation GROUP BY s.attrelid
), namespace AS (
  SELECT nspname FROM published UNION SELECT nspname FROM extension UNION SELECT nspname FROM used_collation
  UNION SELECT nspname FROM used_type WHERE class = 'built'
)
SELECT jsonb_build_object(
  'version', (SELECT s.version FROM dp.policy_state s),
  'schemas', COALESCE((SELECT jsonb_agg(nspname ORDER BY nspname) FROM namespace WHERE nspname <> 'dp'), '[]'),
  'extensions', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', extname, 'schema', nspname) ORDER BY depth DESC, extname)
    FROM extension), '[]'),
  'collations', COALESCE((SELECT jsonb_agg(jsonb_build_object('schema', nspname, 'name', collname, 'provider', collprovider,
      'deterministic', collisdeterministic, 'locale', COALESCE(facts ->> 'colllocale', facts ->> 'colliculocale'),
      'lc_collate', facts ->> 'collcollate', 'lc_ctype', facts ->> 'collctype', 'rules', facts ->> 'collicurules')
      ORDER BY nspname, collname) FROM used_collation), '[]'),
  'types', COALESCE((SELECT jsonb_agg(jsonb_build_object('schema', u.nspname, 'name', u.typname,
      'kind', CASE u.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN 'domain' WHEN 'c' THEN 'composite' ELSE 'range' END)
      || CASE u.typtype
        WHEN 'e' THEN jsonb_build_object('labels', COALESCE((SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder)
          FROM pg_enum e WHERE e.enumtypid = u.oid), '[]'))
        WHEN 'd' THEN (SELECT jsonb_build_object('base', format_type(u.typbasetype, u.typtypmod), 'collation', c.qualified)
          FROM pg_type b LEFT JOIN collation_name c ON c.oid = NULLIF(u.typcollation, b.typcollation) WHERE b.oid = u.typbasetype)
        WHEN 'c' THEN jsonb_build_object('columns', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', a.attname,
            'type', a.type, 'collation', c.qualified) ORDER BY a.attnum)
          FROM built_attribute a LEFT JOIN collation_name c ON c.oid = a.own_collation WHERE a.oid = u.oid), '[]'))
        ELSE (SELECT jsonb_build_object('subtype', format_type(g.rngsubtype, NULL), 'collation', c.qualified,
            'opclass', quote_ident(n.nspname) || '.' || quote_ident(o.opcname),
            'multirange', quote_ident(mn.nspname) || '.' || quote_ident(m.typname))
          FROM pg_range g JOIN pg_opclass o ON o.oid = g.rngsubopc JOIN pg_namespace n ON n.oid = o.opcnamespace
          JOIN pg_type m ON m.oid = g.rngmultitypid JOIN pg_namespace mn ON mn.oid = m.typnamespace
          JOIN pg_type b ON b.oid = g.rngsubtype LEFT JOIN collation_name c ON c.oid = NULLIF(g.rngcollation, b.typcollation)
          WHERE g.rngtypid = u.oid)
      END ORDER BY u.depth DESC, u.nspname, u.typname)
    FROM used_type u WHERE u.class = 'built' AND u.typtype <> 'm'), '[]'),
  'relations', COALESCE((SELECT jsonb_agg(jsonb_build_object('schema', p.nspname, 'name', p.relname, 'kind', p.kind,
      'columns', COALESCE(l.columns, '[]'),
      'comment', CASE WHEN p.comments THEN obj_description(p.oid, 'pg_class') END,
      'keys', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', k.conname,
          'kind', CASE k.contype WHEN 'p' THEN 'primary' ELSE 'unique' END, 'columns', k.columns,
          'nulls_not_distinct', k.indnullsnotdistinct) ORDER BY k.conname) FROM key k WHERE k.conrelid = p.oid), '[]'),
      'view', (SELECT pg_get_viewdef(v.oid) FROM open_view v WHERE v.oid = p.oid),
      'depends', COALESCE((SELECT v.depends FROM open_view v WHERE v.oid = p.oid), '[]')) ORDER BY p.nspname, p.relname)
    FROM published p LEFT JOIN column_list l ON l.attrelid = p.oid), '[]'),
  'foreign_keys', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', r.conname, 'schema', s.nspname, 'table', s.relname,
      'columns', r.columns, 'target_schema', t.nspname, 'target_table', t.relname, 'target_columns', r.targets)
      ORDER BY s.nspname, s.relname, r.conname)
    FROM reference r JOIN published s ON s.oid = r.conrelid JOIN published t ON t.oid = r.confrelid AND t.kind = 'protected'), '[]'),
  'functions', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', r.proname,
      'identity', pg_get_function_identity_arguments(r.oid), 'arguments', pg_get_function_arguments(r.oid),
      'result', pg_get_function_result(r.oid), 'definition', CASE WHEN r.copied THEN pg_get_functiondef(r.oid) END,
      'comment', obj_description(r.oid, 'pg_proc')) ORDER BY r.proname, pg_get_function_identity_arguments(r.oid))
    FROM shown_routine r), '[]'),
  'views', COALESCE((SELECT jsonb_agg(jsonb_build_object('name', v.relname, 'columns', COALESCE(l.columns, '[]'),
      'comment', obj_description(v.oid, 'pg_class')) ORDER BY v.relname)
    FROM catalog_view v LEFT JOIN column_list l ON l.attrelid = v.oid), '[]'))
$facade$;

COMMENT ON FUNCTION dp.facade_definition() IS
  'Shape of everything published, with the policy version, for building the facade; no row, literal or unpublished name';
REVOKE ALL ON FUNCTION dp.facade_definition() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.facade_definition() TO dp_gateway;
