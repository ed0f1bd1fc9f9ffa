CREATE FUNCTION dp._unregister_synthetic(synthetic regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_owner(synthetic, 'dp.unregister_synthetic');
  DELETE FROM dp.synthetic s WHERE s.synthetic = _unregister_synthetic.synthetic;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not registered as a synthetic table', synthetic), HINT = 'Nothing to do.';
  END IF;
  -- shown on as an ordinary public table, it could be taken for real rows
  DELETE FROM dp.publication p WHERE p.relation = _unregister_synthetic.synthetic;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._unregister_synthetic(regclass) IS 'Forgets a synthetic copy and its publication; dp.unregister_synthetic adds the REVOKE that only the table''s owner can do.';
REVOKE ALL ON FUNCTION dp._unregister_synthetic(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._unregister_synthetic(regclass) TO dp_admin;

CREATE PROCEDURE dp.unregister_synthetic(synthetic regclass)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._unregister_synthetic(synthetic);
  EXECUTE format('REVOKE ALL ON TABLE %s FROM dp_reader', synthetic);
END $$;
COMMENT ON PROCEDURE dp.unregister_synthetic(regclass) IS 'Withdraws a synthetic copy from analysts. What it cost stays spent, and a declassified one stays named in dp.budget; the table itself stays.';
REVOKE ALL ON PROCEDURE dp.unregister_synthetic(regclass) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.unregister_synthetic(regclass) TO dp_admin;
