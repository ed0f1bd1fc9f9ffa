CREATE FUNCTION dp._hypertable(relation oid, OUT hypertable boolean, OUT chunk_width bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  hypertable := false;
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') THEN
    -- dynamic: the extension may not be there when this is made. The first dimension is the time; microseconds, or units of an integer
    EXECUTE 'SELECT true, (SELECT d.interval_length FROM _timescaledb_catalog.dimension d WHERE d.hypertable_id = h.id AND d.interval_length IS NOT NULL ORDER BY d.id LIMIT 1)'
      ' FROM _timescaledb_catalog.hypertable h JOIN pg_namespace n ON n.nspname = h.schema_name JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name WHERE c.oid = $1'
      INTO hypertable, chunk_width USING relation;
    hypertable := COALESCE(hypertable, false);
  END IF;
END $$;
COMMENT ON FUNCTION dp._hypertable(oid) IS 'Whether a table is a TimescaleDB hypertable, whose chunks are inheritance children with its triggers and constraints, and the width of its chunks.';
REVOKE ALL ON FUNCTION dp._hypertable(oid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._hypertable(oid) TO dp_admin;
