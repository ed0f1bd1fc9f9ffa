CREATE FUNCTION dp._hypertable(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found boolean := false;
BEGIN
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') THEN
    -- dynamic: the extension may not be there when this is made
    EXECUTE 'SELECT EXISTS (SELECT FROM _timescaledb_catalog.hypertable h JOIN pg_namespace n ON n.nspname = h.schema_name'
      ' JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name WHERE c.oid = $1)' INTO found USING relation;
  END IF;
  RETURN found;
END $$;
COMMENT ON FUNCTION dp._hypertable(oid) IS 'Whether a table is a TimescaleDB hypertable, whose chunks are inheritance children with its triggers and constraints.';
REVOKE ALL ON FUNCTION dp._hypertable(oid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._hypertable(oid) TO dp_admin;
