CREATE FUNCTION dp._charge(request_id uuid, who text, request jsonb, witness jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex' SET row_security = off SET work_mem = '16MB' AS $$
from pg_epsilon import _version, entry
if _version.VERSION != "@VERSION@":
    told = plpy.execute(plpy.prepare("SELECT dp._other_library($1, $2)::text AS refusal", ["text", "uuid"]), [_version.VERSION, request_id])
    return told[0]["refusal"]
return entry.charge(request_id, who, request, witness)
$$;
COMMENT ON FUNCTION dp._charge(uuid, text, jsonb, jsonb) IS 'Channel, first transaction: authorise, plan from public facts, pay. Returns a cached answer, a refusal, or that the charge is committed. Reads no private row. witness: heads of chains that the gateway has seen; a dataset whose chain lacks one is frozen.';
REVOKE ALL ON FUNCTION dp._charge(uuid, text, jsonb, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._charge(uuid, text, jsonb, jsonb) TO dp_channel;
