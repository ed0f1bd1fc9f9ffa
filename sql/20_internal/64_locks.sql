CREATE FUNCTION dp._lock_room() RETURNS TABLE (room bigint, setting bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  -- three quarters of the lock table, which PostgreSQL makes at its start: others lock something too
  SELECT s.each * (s.connections + s.prepared + s.vacuum + 1 + s.workers + s.senders) * 3 / 4, s.each
  FROM (SELECT current_setting('max_locks_per_transaction')::bigint AS each, current_setting('max_connections')::bigint AS connections,
               current_setting('max_prepared_transactions')::bigint AS prepared,
               COALESCE(current_setting('autovacuum_worker_slots', true), current_setting('autovacuum_max_workers'))::bigint AS vacuum,
               current_setting('max_worker_processes')::bigint AS workers, current_setting('max_wal_senders')::bigint AS senders) AS s
$$;
COMMENT ON FUNCTION dp._lock_room() IS 'How many relations the statements of one question may lock, three quarters of what the server''s lock table holds, and max_locks_per_transaction, which that is a multiple of.';
REVOKE ALL ON FUNCTION dp._lock_room() FROM PUBLIC;

CREATE FUNCTION dp._chunks_of(relations oid[]) RETURNS TABLE (relation oid, key name, is_time boolean, width bigint, locks bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') THEN
    RETURN QUERY
      SELECT c.oid, d.column_name, d.column_type IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype), d.interval_length,
             (1 + (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid) + CASE WHEN h.compressed_hypertable_id IS NULL THEN 0 ELSE 2 END)
             * COALESCE((SELECT exp(sum(ln(s.num_slices)))::bigint FROM _timescaledb_catalog.dimension s WHERE s.hypertable_id = h.id AND s.num_slices > 0), 1)
      FROM _timescaledb_catalog.hypertable h JOIN pg_namespace n ON n.nspname = h.schema_name JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name
      JOIN _timescaledb_catalog.dimension d ON d.hypertable_id = h.id AND d.interval_length > 0 AND d.partitioning_func IS NULL
      WHERE c.oid = ANY (relations) AND d.id = (SELECT min(o.id) FROM _timescaledb_catalog.dimension o WHERE o.hypertable_id = h.id AND o.interval_length > 0);
  END IF;
END $$;
COMMENT ON FUNCTION dp._chunks_of(oid[]) IS 'Of hypertables: the column of their time, how wide a chunk is (in microseconds, or values), and how many relations a plan locks for each: chunks, their indexes, what is compressed of them, in every slice of space. How many chunks there are, a row decides: it is not looked at.';
REVOKE ALL ON FUNCTION dp._chunks_of(oid[]) FROM PUBLIC;

CREATE FUNCTION dp._partitions_of(relations oid[]) RETURNS TABLE (relation oid, parts bigint, locks bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE kin AS (
    SELECT r.oid AS relation, r.oid AS part FROM unnest(relations) AS r(oid)
    UNION SELECT k.relation, i.inhrelid FROM kin k JOIN pg_inherits i ON i.inhparent = k.part
  )
  SELECT k.relation, CASE WHEN bool_and(k.part = k.relation OR c.relispartition) AND NOT dp._hypertable(k.relation)
           THEN count(*) FILTER (WHERE k.part <> k.relation AND c.relkind <> 'p') END,
         (count(*) + sum((SELECT count(*) FROM pg_index i WHERE i.indrelid = k.part)))::bigint
  FROM kin k JOIN pg_class c ON c.oid = k.part GROUP BY k.relation
$$;
COMMENT ON FUNCTION dp._partitions_of(oid[]) IS 'Of relations: how many partitions they have, and how many relations a plan over all of them locks, indexes too. parts NULL: children are not by DDL alone.';
REVOKE ALL ON FUNCTION dp._partitions_of(oid[]) FROM PUBLIC;
