CREATE FUNCTION dp.dp_shown(request uuid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = notice AS $$
  SELECT dp._engine('shown', jsonb_build_object('request', request))
$$;
COMMENT ON FUNCTION dp.dp_shown(uuid) IS 'A stored answer again, free, whatever became of the policy since: columns, rows and bars as they were given, how and when it was answered. By the id of a request that you paid for (dp.spending), or whose answer was served to you (dp.last_answer), or of a grouped answer that a Turbo view gave you; an administrator, anyone''s. Predicates are not told.';
REVOKE ALL ON FUNCTION dp.dp_shown(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_shown(uuid) TO dp_analyst, dp_gateway, dp_admin;
