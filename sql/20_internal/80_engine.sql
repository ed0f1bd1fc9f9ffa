CREATE FUNCTION dp._engine_reply(call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 AS $$
from pg_epsilon import _version, entry
if _version.VERSION != "@VERSION@":
    told = plpy.execute(plpy.prepare("SELECT dp._other_library($1, $2)::text AS refusal", ["text", "uuid"]), [_version.VERSION, None])
    return told[0]["refusal"]
return entry.on_policy(call, arguments)
$$;
COMMENT ON FUNCTION dp._engine_reply(text, jsonb) IS 'The engine''s value or refusal for a call on public facts (a dry run, what is left, a check of a declaration). Nothing runs on rows.';
REVOKE ALL ON FUNCTION dp._engine_reply(text, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._engine(call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb := dp._engine_reply(call, arguments);
BEGIN
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  RETURN reply -> 'value';
END $$;
COMMENT ON FUNCTION dp._engine(text, jsonb) IS 'dp._engine_reply, whose refusals it raises: an error raised inside PL/Python would speak Python.';
REVOKE ALL ON FUNCTION dp._engine(text, jsonb) FROM PUBLIC;
