CREATE FUNCTION dp._charge(request_id uuid, who text, request jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
from pg_epsilon import entry
return entry.charge(request_id, who, request)
$$;
COMMENT ON FUNCTION dp._charge(uuid, text, jsonb) IS 'Channel, first transaction: authorise, plan from public facts, pay. Returns a cached answer, a refusal, or that the charge is committed. Reads no private row.';
REVOKE ALL ON FUNCTION dp._charge(uuid, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._charge(uuid, text, jsonb) TO dp_channel;
