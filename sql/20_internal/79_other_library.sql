CREATE FUNCTION dp._other_library(loaded text, request_id uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object('request_id', request_id, 'refusal', jsonb_build_object('sqlstate', 'DP006',
    'message', format('this session has loaded version %s of the Python package pg_epsilon, the extension is %s', loaded, e.extversion),
    'hint', format('Connect anew. If the message stays, install the package %s where the server finds it; an older extension than the package wants ALTER EXTENSION pg_epsilon UPDATE.', e.extversion)))
  FROM pg_extension e WHERE e.extname = 'pg_epsilon'
$$;
COMMENT ON FUNCTION dp._other_library(text, uuid) IS 'What the engine''s functions reply where a session has the package of another version loaded, as one that stayed open over an upgrade has: a refusal, before any of its code runs.';
REVOKE ALL ON FUNCTION dp._other_library(text, uuid) FROM PUBLIC;
