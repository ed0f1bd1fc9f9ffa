CREATE FUNCTION dp._partition_key_held(relation regclass) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE whole AS (
    SELECT relation::oid AS part UNION SELECT i.inhrelid FROM whole JOIN pg_inherits i ON i.inhparent = whole.part
  ), hypertable AS MATERIALIZED (
    -- TimescaleDB refuses to alter when its triggers fire, and those of its chunks
    SELECT dp._hypertable(relation) AS is
  )
  SELECT NOT EXISTS (SELECT FROM whole w JOIN pg_class c ON c.oid = w.part WHERE c.relkind IN ('r', 'p', 'f')
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = w.part AND t.tgname = '~dp_partition_key' AND t.tgfoid = 'dp._partition_key_immutable()'::regprocedure AND t.tgqual IS NULL
      AND (t.tgenabled = 'A' OR t.tgenabled = 'O' AND (SELECT h.is FROM hypertable h))))
$$;
COMMENT ON FUNCTION dp._partition_key_held(regclass) IS 'False when rows could be moved between leaf accounts: the trigger that forbids it is not enabled ALWAYS or another one stands in its place, or an inheritance child or a chunk does not have it. The relation''s own account pays then (composition.md 5.2).';
REVOKE ALL ON FUNCTION dp._partition_key_held(regclass) FROM PUBLIC;
