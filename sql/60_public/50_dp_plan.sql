CREATE FUNCTION dp._plan(request jsonb) RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 AS $$
from pg_epsilon import entry
return entry.plan(request)
$$;
COMMENT ON FUNCTION dp._plan(jsonb) IS 'The plan of a request, or its refusal. Nothing runs on rows.';
REVOKE ALL ON FUNCTION dp._plan(jsonb) FROM PUBLIC;

CREATE FUNCTION dp.dp_plan(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = notice AS $$
DECLARE
  reply jsonb := dp._plan(request);
BEGIN
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  RETURN reply -> 'plan';
END $$;
COMMENT ON FUNCTION dp.dp_plan(jsonb) IS 'Dry run of a request, free: mechanism, path, charge, expected error, budget left, and the statement that would read the rows. From public facts only; nothing runs on rows.';
REVOKE ALL ON FUNCTION dp.dp_plan(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_plan(jsonb) TO dp_analyst, dp_gateway;
