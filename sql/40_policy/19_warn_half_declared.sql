CREATE FUNCTION dp._warn_half_declared(relation oid) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_ record;
BEGIN
  -- others too, from which keys lead here: a relation that is protected now may be the units of one protected before
  FOR found_ IN
    WITH RECURSIVE near AS (
      SELECT _warn_half_declared.relation AS oid
      UNION SELECT x.oid FROM near n CROSS JOIN LATERAL (
        SELECT k.conrelid FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = n.oid
        UNION ALL SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = n.oid
        UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = n.oid) x(oid)
    )
    SELECT h.* FROM near n CROSS JOIN LATERAL dp._half_declared_told(n.oid) h
    WHERE _warn_half_declared.relation IN (h.relation, h.origin, h.units) ORDER BY h.relation::regclass::text, h.problem
  LOOP
    RAISE WARNING '%: %', found_.relation::regclass, found_.problem USING HINT = found_.hint;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._warn_half_declared(oid) IS 'A WARNING for each finding of dp._half_declared that a relation has part in, with the call that mends it.';
REVOKE ALL ON FUNCTION dp._warn_half_declared(oid) FROM PUBLIC;
