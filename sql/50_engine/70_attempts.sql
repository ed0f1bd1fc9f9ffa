CREATE FUNCTION dp._channel_attempt() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
  state text;
  said text;
  reason text;
  advice text;
BEGIN
  -- anew: a channel that this session opened before may have outlived its password, or the server's packages
  PERFORM dp._channel_close();
  IF NOT EXISTS (SELECT FROM pg_foreign_server s JOIN pg_user_mappings m ON m.srvid = s.oid WHERE s.srvname = 'dp_ledger' AND m.usename = 'dp_owner') THEN
    RETURN QUERY SELECT 'dp_ledger', 'there is no ledger channel', 'A superuser runs CALL dp.repair_channel().';
    RETURN;
  END IF;
  PERFORM dp._channel_open();
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT, reason = PG_EXCEPTION_DETAIL, advice = PG_EXCEPTION_HINT;
  reason := CASE WHEN state IN ('2F003', 'DP006') OR reason = '' THEN said ELSE regexp_replace(reason, '\s+', ' ', 'g') END;
  RETURN QUERY SELECT 'dp_ledger', format('the ledger channel does not open (SQLSTATE %s): %s', state, reason), CASE state
    WHEN 'DP006' THEN advice
    WHEN '2F003' THEN 'Put this line before the others in pg_hba.conf, and SELECT pg_reload_conf(): host all +dp_channel 127.0.0.1/32 scram-sha-256'
    ELSE 'A superuser runs CALL dp.repair_channel(), which makes the password anew and takes over the port; pg_hba.conf must say: host all +dp_channel 127.0.0.1/32 scram-sha-256' END;
END $$;
COMMENT ON FUNCTION dp._channel_attempt() IS 'Opens this backend''s ledger channel anew; a row says why that fails.';
REVOKE ALL ON FUNCTION dp._channel_attempt() FROM PUBLIC;

CREATE FUNCTION dp._engine_attempt(on_channel boolean) RETURNS TABLE (object text, problem text, hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
  nothing uuid := gen_random_uuid();
  reply jsonb;
BEGIN
  IF on_channel THEN
    reply := dp._channel_once(format('SELECT dp._probe(%L)', nothing));
  ELSE
    reply := dp._probe(nothing);
  END IF;
  IF reply ->> 'request_id' IS DISTINCT FROM nothing::text OR reply -> 'troubles' IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '08P01';
  END IF;
  RETURN QUERY SELECT t.object, t.problem, t.hint FROM jsonb_to_recordset(reply -> 'troubles') AS t(object text, problem text, hint text);
EXCEPTION WHEN OTHERS THEN
  PERFORM dp._channel_close();
  RETURN QUERY SELECT 'engine', format('the engine does not run: SQLSTATE %s', SQLSTATE), CASE SQLSTATE
    WHEN '58P01' THEN format('PL/Python is not installed in full: apt-get install postgresql-plpython3-%s', current_setting('server_version_num')::integer / 10000)
    WHEN '42883' THEN 'ALTER EXTENSION pg_epsilon UPDATE'
    ELSE 'The server''s log has a line of that time and SQLSTATE.' END;
END $$;
COMMENT ON FUNCTION dp._engine_attempt(boolean) IS 'Tries the engine behind the channel, or in this backend where there is none; a row for each thing that does not work.';
REVOKE ALL ON FUNCTION dp._engine_attempt(boolean) FROM PUBLIC;

CREATE FUNCTION dp._attempts() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  channel boolean;
BEGIN
  RETURN QUERY SELECT a.object, 'nothing can be answered: ' || a.problem, a.hint FROM dp._channel_attempt() a;
  channel := NOT FOUND;
  RETURN QUERY SELECT a.object, 'nothing can be answered: ' || a.problem, a.hint FROM dp._engine_attempt(channel) a;
END $$;
COMMENT ON FUNCTION dp._attempts() IS 'What keeps every question from being answered, found by trying: the channel, opened anew, and the engine behind it. Charges nothing, reads no row. No row: questions can be answered.';
REVOKE ALL ON FUNCTION dp._attempts() FROM PUBLIC;

CREATE FUNCTION dp.probe() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT * FROM dp._attempts()
$$;
COMMENT ON FUNCTION dp.probe() IS 'For the proxy: what keeps every question from being answered, as dp.check() finds by trying. No row: it serves.';
REVOKE ALL ON FUNCTION dp.probe() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.probe() TO dp_gateway;
