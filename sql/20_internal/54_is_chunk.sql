CREATE FUNCTION dp._is_chunk(relation oid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation AND dp._hypertable(i.inhparent))
$$;
COMMENT ON FUNCTION dp._is_chunk(oid) IS 'Whether a table is a chunk of a hypertable. TimescaleDB makes one because a row was written, so that nobody may be told (composition.md 6.2), and refuses to alter its columns and triggers.';
REVOKE ALL ON FUNCTION dp._is_chunk(oid) FROM PUBLIC;
