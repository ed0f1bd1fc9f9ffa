CREATE FUNCTION dp._warn_half_declared(relation oid) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_ record;
BEGIN
  -- others too: a relation that is protected now may be the units of one that was protected before
  FOR found_ IN SELECT h.* FROM dp._half_declared_told(NULL) h WHERE _warn_half_declared.relation IN (h.relation, h.origin, h.units) LOOP
    RAISE WARNING '%: %', found_.relation::regclass, found_.problem USING HINT = found_.hint;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._warn_half_declared(oid) IS 'A WARNING for each finding of dp._half_declared that a relation has part in, with the call that mends it.';
REVOKE ALL ON FUNCTION dp._warn_half_declared(oid) FROM PUBLIC;
