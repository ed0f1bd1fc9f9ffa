CREATE FUNCTION dp._base_type(type oid, modifier integer, OUT base oid, OUT typmod integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE up AS (
    SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, modifier AS typmod FROM pg_type t WHERE t.oid = type
    UNION ALL
    SELECT b.oid, b.typtype, b.typbasetype, b.typtypmod, up.typtypmod
    FROM up JOIN pg_type b ON b.oid = up.typbasetype WHERE up.typtype = 'd'
  )
  SELECT up.oid, up.typmod FROM up WHERE up.typtype <> 'd'
$$;
COMMENT ON FUNCTION dp._base_type(oid, integer) IS 'The type beneath any number of domains, with its type modifier.';
REVOKE ALL ON FUNCTION dp._base_type(oid, integer) FROM PUBLIC;
