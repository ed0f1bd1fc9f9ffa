CREATE FUNCTION dp.dp_plan(request jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = notice AS $$
  SELECT dp._engine('plan', jsonb_build_object('request', request))
$$;
COMMENT ON FUNCTION dp.dp_plan(jsonb) IS 'Dry run of a request, free: mechanism, path, charge, expected error, budget left. From public facts only; nothing runs on rows.';
REVOKE ALL ON FUNCTION dp.dp_plan(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_plan(jsonb) TO dp_analyst, dp_gateway;
