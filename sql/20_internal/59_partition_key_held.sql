CREATE FUNCTION dp._partition_key_held(relation regclass) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE whole AS (
    -- a hypertable's chunks have its triggers, always: TimescaleDB refuses to alter them
    SELECT relation::oid AS part UNION SELECT i.inhrelid FROM whole JOIN pg_inherits i ON i.inhparent = whole.part WHERE NOT (dp._hypertable(whole.part)).hypertable
  )
  SELECT NOT EXISTS (SELECT FROM whole w JOIN pg_class c ON c.oid = w.part WHERE c.relkind IN ('r', 'p', 'f')
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = w.part AND t.tgname = '~dp_partition_key' AND (t.tgenabled = 'A' OR t.tgenabled = 'O' AND (dp._hypertable(w.part)).hypertable)))
$$;
COMMENT ON FUNCTION dp._partition_key_held(regclass) IS 'False when rows could be moved between leaf accounts: the trigger that forbids it is not enabled ALWAYS, or an inheritance child does not have it (partitions and chunks do). The relation''s own account pays then (composition.md 5.2).';
REVOKE ALL ON FUNCTION dp._partition_key_held(regclass) FROM PUBLIC;
