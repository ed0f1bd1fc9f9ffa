CREATE PROCEDURE dp.refresh(relation regclass)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_owner(relation, 'dp.refresh');
  UPDATE dp.relation_policy p SET data_version = data_version + 1, as_of = clock_timestamp() WHERE p.relation = refresh.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not protected', relation), HINT = 'Nothing to refresh.';
  END IF;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.refresh(regclass) IS 'Says publicly that the data moved on: answers cached before are no longer served, the next ones are paid for. Call it by a clock, not because a row was written.';
REVOKE ALL ON PROCEDURE dp.refresh(regclass) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.refresh(regclass) TO dp_admin;
