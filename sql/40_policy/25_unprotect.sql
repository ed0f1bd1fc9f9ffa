CREATE PROCEDURE dp.unprotect(relation regclass)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_owner(relation, 'dp.unprotect');
  DELETE FROM dp.publication p WHERE p.relation = unprotect.relation AND p.kind = 'protected';
  DELETE FROM dp.relation_policy p WHERE p.relation = unprotect.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not protected', relation), HINT = 'Nothing to do.';
  END IF;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.unprotect(regclass) IS 'Withdraws a relation from analysts. Its accounts, ledger rows and releases stay; protecting it again continues them, and its synthetic copies.';
REVOKE ALL ON PROCEDURE dp.unprotect(regclass) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.unprotect(regclass) TO dp_admin;
