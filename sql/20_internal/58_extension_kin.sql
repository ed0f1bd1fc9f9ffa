CREATE FUNCTION dp._extension_kin() RETURNS TABLE (relation oid, whole oid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  link record;
  -- the relation that a row of the extension's catalogue names
  named constant text := 'SELECT t.*, c.oid FROM _timescaledb_catalog.%I t JOIN pg_namespace n ON n.nspname = t.schema_name JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.table_name';
  hypertable constant text := format('h AS (' || named || ')', 'hypertable');
  chunk constant text := format('k AS (' || named || ')', 'chunk');
BEGIN
  -- dynamic, and each link by itself: versions differ, and what a version does not say is untold (dp._extension_parts)
  FOR link IN
    SELECT l.query FROM (VALUES
      ('{hypertable.id,hypertable.schema_name,hypertable.table_name,chunk.hypertable_id,chunk.schema_name,chunk.table_name}'::text[],
       format('WITH %s, %s SELECT k.oid, h.oid FROM k JOIN h ON h.id = k.hypertable_id', hypertable, chunk)),
      ('{chunk.id,chunk.schema_name,chunk.table_name,chunk.compressed_chunk_id}', format('WITH %s SELECT z.oid, k.oid FROM k JOIN k z ON z.id = k.compressed_chunk_id', chunk)),
      ('{hypertable.id,hypertable.schema_name,hypertable.table_name,hypertable.compressed_hypertable_id}', format('WITH %s SELECT z.oid, h.oid FROM h JOIN h z ON z.id = h.compressed_hypertable_id', hypertable)),
      ('{hypertable.id,hypertable.schema_name,hypertable.table_name,continuous_agg.mat_hypertable_id,continuous_agg.raw_hypertable_id}',
       format('WITH %s SELECT m.oid, r.oid FROM _timescaledb_catalog.continuous_agg a JOIN h m ON m.id = a.mat_hypertable_id JOIN h r ON r.id = a.raw_hypertable_id', hypertable)),
      ('{compression_settings.relid,compression_settings.compress_relid}',
       'SELECT s.compress_relid::oid, s.relid::oid FROM _timescaledb_catalog.compression_settings s WHERE s.compress_relid IS NOT NULL AND s.compress_relid <> s.relid')) l(needs, query)
    WHERE NOT EXISTS (SELECT FROM unnest(l.needs) u(wanted) WHERE NOT EXISTS (
      SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('_timescaledb_catalog.' || split_part(u.wanted, '.', 1)) AND a.attname = split_part(u.wanted, '.', 2)
        AND NOT a.attisdropped AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')))
  LOOP
    BEGIN
      RETURN QUERY EXECUTE link.query;
    EXCEPTION WHEN OTHERS THEN
      NULL;  -- a version that says it otherwise: its relations are untold
    END;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._extension_kin() IS
  'By TimescaleDB''s catalogue: chunks, compressed chunks, compressed hypertables and materialisations of continuous aggregates, and the relation whose rows each holds. Inheritance says only the first.';
REVOKE ALL ON FUNCTION dp._extension_kin() FROM PUBLIC;

CREATE FUNCTION dp._extension_parts() RETURNS TABLE (relation oid, whole oid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH RECURSIVE places AS MATERIALIZED (
    SELECT d.objid AS oid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_namespace'::regclass AND d.refclassid = 'pg_extension'::regclass AND e.extname <> 'pg_epsilon'
  ), shipped AS MATERIALIZED (
    SELECT d.objid AS oid FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  ), said AS MATERIALIZED (
    SELECT DISTINCT k.relation, k.whole FROM dp._extension_kin() k WHERE k.relation <> k.whole
  ), kin AS MATERIALIZED (
    SELECT s.relation, s.whole FROM said s
    UNION SELECT i.inhrelid, i.inhparent FROM pg_inherits i
    UNION SELECT w.ev_class, d.refobjid FROM pg_rewrite w JOIN pg_class v ON v.oid = w.ev_class AND v.relnamespace IN (SELECT p.oid FROM places p)
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> w.ev_class
  ), told AS (
    SELECT c.oid FROM pg_class c WHERE c.oid IN (SELECT k.whole FROM kin k) AND (c.relnamespace NOT IN (SELECT p.oid FROM places p) OR c.oid IN (SELECT s.oid FROM shipped s))
    UNION SELECT k.relation FROM told t JOIN kin k ON k.whole = t.oid
  )
  SELECT s.relation, s.whole FROM said s
  UNION ALL
  SELECT c.oid, NULL FROM pg_class c
  WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND c.relnamespace IN (SELECT p.oid FROM places p) AND c.oid NOT IN (SELECT t.oid FROM told t) AND c.oid NOT IN (SELECT s.oid FROM shipped s)
$$;
COMMENT ON FUNCTION dp._extension_parts() IS
  'Relations that extensions made, and the relation whose rows each holds; NULL where one stands in a schema of an extension and nothing says whose: it may hold rows of every protected relation.';
REVOKE ALL ON FUNCTION dp._extension_parts() FROM PUBLIC;

CREATE FUNCTION dp._protected_by_extension(relation regclass) RETURNS SETOF regclass
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH RECURSIVE part AS MATERIALIZED (
    SELECT x.relation, x.whole FROM dp._extension_parts() x
  ), kin AS MATERIALIZED (
    SELECT x.relation, x.whole FROM part x WHERE x.whole IS NOT NULL UNION SELECT i.inhrelid, i.inhparent FROM pg_inherits i
  ), up AS (
    SELECT $1::oid AS oid UNION SELECT k.whole FROM up JOIN kin k ON k.relation = up.oid
  ), down AS (
    SELECT $1::oid AS oid UNION SELECT k.relation FROM down JOIN kin k ON k.whole = down.oid
  )
  SELECT p.relation FROM dp.relation_policy p
  WHERE p.relation <> $1 AND (p.relation IN (SELECT u.oid FROM up u UNION ALL SELECT d.oid FROM down d)
    OR EXISTS (SELECT FROM up u JOIN part x ON x.relation = u.oid AND x.whole IS NULL))
$$;
COMMENT ON FUNCTION dp._protected_by_extension(regclass) IS
  'Protected relations that hold rows of this one too, as dp._protected_kin, but also by what an extension''s catalogue says, and all of them where it does not say. Not for what follows DDL: rows make extensions create relations.';
REVOKE ALL ON FUNCTION dp._protected_by_extension(regclass) FROM PUBLIC;
