CREATE FUNCTION dp._turbo_reply(call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex' SET row_security = off AS $$
from pg_epsilon import _version, entry
if _version.VERSION != "@VERSION@":
    told = plpy.execute(plpy.prepare("SELECT dp._other_library($1, $2)::text AS refusal", ["text", "uuid"]), [_version.VERSION, None])
    return told[0]["refusal"]
return entry.on_turbo(call, arguments)
$$;
COMMENT ON FUNCTION dp._turbo_reply(text, jsonb) IS 'The engine''s value or refusal for what an owner does to a Turbo view. Counts rows into bins, for dp_owner''s eyes.';
REVOKE ALL ON FUNCTION dp._turbo_reply(text, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._turbo(call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb := dp._turbo_reply(call, arguments);
BEGIN
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  RETURN reply -> 'value';
END $$;
COMMENT ON FUNCTION dp._turbo(text, jsonb) IS 'dp._turbo_reply, whose refusals it raises.';
REVOKE ALL ON FUNCTION dp._turbo(text, jsonb) FROM PUBLIC;
