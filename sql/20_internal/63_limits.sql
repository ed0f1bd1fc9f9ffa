CREATE FUNCTION dp._limits() RETURNS TABLE (rows bigint, bytes bigint, memory bigint, undeclared_rows bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT COALESCE(l.rows, 1000000000), COALESCE(l.bytes, 100000000000), COALESCE(l.memory, 512000000), COALESCE(l.undeclared_rows, 10000000)
  FROM (SELECT) AS always LEFT JOIN dp.engine_limits l ON true
$$;
COMMENT ON FUNCTION dp._limits() IS 'The limits in force: rows and bytes of any join that a question needs, memory that one of its aggregates collects, twice each bound; rows that a relation without max_rows counts for.';
REVOKE ALL ON FUNCTION dp._limits() FROM PUBLIC;

CREATE FUNCTION dp._rows_about(relation regclass) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known numeric;
  found bigint;
BEGIN
  WITH RECURSIVE parts AS (
    SELECT _rows_about.relation::oid AS oid UNION SELECT i.inhrelid FROM parts p JOIN pg_inherits i ON i.inhparent = p.oid
  )
  SELECT sum(c.reltuples) INTO known FROM parts p JOIN pg_class c ON c.oid = p.oid
  WHERE c.relkind <> 'p' HAVING bool_and(c.reltuples >= 0);
  IF known IS NOT NULL THEN
    RETURN known;
  END IF;
  IF NOT has_table_privilege('dp_owner', relation, 'SELECT') OR (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = relation) THEN
    RETURN NULL;
  END IF;
  EXECUTE format('SELECT count(*) FROM %s', relation) INTO found;
  RETURN found;
END $$;
COMMENT ON FUNCTION dp._rows_about(regclass) IS 'How many rows a relation has: as last analysed, counted where it never was. SECRET: for dp.check() alone.';
REVOKE ALL ON FUNCTION dp._rows_about(regclass) FROM PUBLIC;
