CREATE FUNCTION dp._bump_policy() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v bigint;
BEGIN
  UPDATE dp.policy_state SET version = version + 1 RETURNING version INTO v;
  PERFORM pg_notify('pg_epsilon_policy', v::text);
  RETURN v;
END $$;
COMMENT ON FUNCTION dp._bump_policy() IS 'Moves the policy version and tells the proxies.';
REVOKE ALL ON FUNCTION dp._bump_policy() FROM PUBLIC;
