CREATE PROCEDURE dp.refresh(relation regclass, every interval DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_owner(relation, 'dp.refresh');
  IF every < interval '1 minute' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'a period is at least one minute', HINT = 'CALL dp.refresh(''t'', every => ''1 day'')';
  END IF;
  UPDATE dp.relation_policy p SET data_version = data_version + 1, as_of = clock_timestamp(), refresh_every = COALESCE(every, p.refresh_every) WHERE p.relation = refresh.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not protected', relation), HINT = 'Nothing to refresh.';
  END IF;
  PERFORM dp._bump_policy();
  IF EXISTS (SELECT FROM dp.turbo_view v WHERE v.relation = refresh.relation) THEN
    PERFORM dp._turbo('refresh', dp._relation_name(relation));
  END IF;
END $$;
COMMENT ON PROCEDURE dp.refresh(regclass, interval) IS 'Says publicly that the data moved on: answers cached before are no longer served, the next ones are paid for. Call it by a clock, not because a row was written; or declare a period once, every => ''1 day'', and the clock does it.';
REVOKE ALL ON PROCEDURE dp.refresh(regclass, interval) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.refresh(regclass, interval) TO dp_admin;
