CREATE FUNCTION dp._answer(request_id uuid, who text DEFAULT NULL, request jsonb DEFAULT NULL, stop boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex' SET row_security = off SET work_mem = '16MB' AS $$
from pg_epsilon import _version, entry
if _version.VERSION != "@VERSION@":
    told = plpy.execute(plpy.prepare("SELECT dp._other_library($1, $2)::text AS refusal", ["text", "uuid"]), [_version.VERSION, request_id])
    return told[0]["refusal"]
return entry.answer(request_id, who, request, stop)
$$;
COMMENT ON FUNCTION dp._answer(uuid, text, jsonb, boolean) IS 'Channel, second transaction: reads rows by one statement, computes and records the release. Refuses an id without a committed charge whose answer is owed; repeats return the recorded release. who and request: of one who asks for what another charge paid and nobody drew. Of a release in steps one is drawn, and the reply is more, until it was the last; stop: what was drawn so far is the release, and the rest of the charge goes back. Holds no lock on any account.';
REVOKE ALL ON FUNCTION dp._answer(uuid, text, jsonb, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._answer(uuid, text, jsonb, boolean) TO dp_channel;
