CREATE FUNCTION dp._ledger_reply(call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET extra_float_digits = 1 AS $$
from pg_epsilon import entry
return entry.on_ledger(call, arguments)
$$;
COMMENT ON FUNCTION dp._ledger_reply(text, jsonb) IS 'The engine''s value or refusal for what an administrator does to the ledger.';
REVOKE ALL ON FUNCTION dp._ledger_reply(text, jsonb) FROM PUBLIC;
