CREATE FUNCTION dp._answer(request_id uuid) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex' SET row_security = off AS $$
from pg_epsilon import entry
return entry.answer(request_id)
$$;
COMMENT ON FUNCTION dp._answer(uuid) IS 'Channel, second transaction: reads rows by one statement, computes and records the release. Refuses an id without a committed charge; repeats return the recorded release. Holds no lock on any account.';
REVOKE ALL ON FUNCTION dp._answer(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._answer(uuid) TO dp_channel;
