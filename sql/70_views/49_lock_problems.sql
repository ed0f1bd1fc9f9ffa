CREATE FUNCTION dp._lock_problems() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.relation::regclass::text,
         format('a question that reads all of its %s locks %s relations; the server has room for %s', CASE WHEN h.is THEN 'chunks' ELSE 'partitions' END, p.locks, r.room),
         format('ALTER SYSTEM SET max_locks_per_transaction = %s, and restart PostgreSQL', ceil(2.0 * p.locks * r.setting / r.room))
         || CASE WHEN h.is THEN format('; or make chunks wider (set_chunk_time_interval). With bounds of %I declared, what may read too many is refused by name.', (SELECT c.key FROM dp._chunks_of(ARRAY[p.relation]) c)) ELSE '.' END
  FROM dp._partitions_of(ARRAY(SELECT relation::oid FROM dp.relation_policy)) p CROSS JOIN dp._lock_room() r CROSS JOIN LATERAL (SELECT dp._hypertable(p.relation) AS is) h
  WHERE p.locks >= r.room
$$;
COMMENT ON FUNCTION dp._lock_problems() IS 'Protected relations with more chunks or partitions than the server''s lock table has room for, which a question over all of them locks. SECRET: for dp.check() alone.';
REVOKE ALL ON FUNCTION dp._lock_problems() FROM PUBLIC;
