CREATE PROCEDURE dp.set_strict(dataset text, strict boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_admin('dp.set_strict');
  IF strict IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'strict must be true or false', HINT = 'CALL dp.set_strict(''people'', true)';
  END IF;
  UPDATE dp.dataset d SET strict = set_strict.strict WHERE d.name = set_strict.dataset;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'CALL dp.create_dataset(name, epsilon => ...) first.';
  END IF;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.set_strict(text, boolean) IS
  'Whether questions over a relation are refused (DP004) that foreign keys lead to units through which it is not protected: such units have no guarantee. false: they are answered, and dp.check() lists the relation.';
REVOKE ALL ON PROCEDURE dp.set_strict(text, boolean) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.set_strict(text, boolean) TO dp_admin;
