CREATE FUNCTION dp._channel_once(statement text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  started timestamptz := clock_timestamp();
  taken double precision;
  reply jsonb;
BEGIN
  PERFORM dp._channel_open();
  IF dp_link.dblink_send_query('dp_ledger', statement) <> 1 THEN
    RAISE EXCEPTION USING ERRCODE = '08006', MESSAGE = 'the ledger channel is broken';
  END IF;
  -- from 17 on dblink's own wait hears a cancel; before, it would sleep through one, so that the reply is polled for
  WHILE current_setting('server_version_num')::integer < 170000 AND dp_link.dblink_is_busy('dp_ledger') = 1 LOOP
    taken := extract(epoch FROM clock_timestamp() - started);
    -- what is stored is there by then, and a sleep is a whole millisecond at least
    IF taken > 0.0005 THEN
      -- a fiftieth of what it took so far: a long scan is not delayed noticeably
      PERFORM pg_sleep(least(greatest(taken / 50, 0.0001), 0.02));
    END IF;
  END LOOP;
  SELECT t.reply INTO reply FROM dp_link.dblink_get_result('dp_ledger') AS t(reply jsonb);
  PERFORM FROM dp_link.dblink_get_result('dp_ledger') AS t(reply jsonb);
  RETURN reply;
END $$;
COMMENT ON FUNCTION dp._channel_once(text) IS 'Sends one statement over the channel and waits for its single jsonb, without blocking cancel: by dblink from PostgreSQL 17 on, by polling before.';
REVOKE ALL ON FUNCTION dp._channel_once(text) FROM PUBLIC;

CREATE FUNCTION dp._channel_trouble() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = 'the call could not be completed on the ledger channel',
    HINT = 'If it was charged, the same question asked again is answered for nothing; if it persists, the administrator runs dp.check().';
END $$;
COMMENT ON FUNCTION dp._channel_trouble() IS 'Raises the one error that all trouble of the channel becomes.';
REVOKE ALL ON FUNCTION dp._channel_trouble() FROM PUBLIC;

CREATE FUNCTION dp._channel_ask(statement text, request_id uuid) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb;
  state text;
  message text;
  hint text;
  place text;
BEGIN
  FOR attempt IN 1 .. 2 LOOP
    BEGIN
      reply := dp._channel_once(statement);
      IF (reply ->> 'request_id') IS DISTINCT FROM request_id::text THEN
        RAISE EXCEPTION USING ERRCODE = '08P01', MESSAGE = 'stale reply on the ledger channel';
      END IF;
      RETURN reply;
    EXCEPTION
      WHEN query_canceled THEN
        GET STACKED DIAGNOSTICS place = PG_EXCEPTION_CONTEXT;
        IF place ~ 'dblink connection' THEN
          -- the other end was cancelled, by an administrator: the caller did not ask for it
          PERFORM dp._channel_close();
          PERFORM dp._channel_trouble();
        END IF;
        RAISE;
      WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
        PERFORM dp._channel_close();
        IF state LIKE 'DP%' THEN
          RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, HINT = hint;
        END IF;
        -- 08: connection; 57P: the other end was shut down, or idled too long. A stale reply (08P01) is no broken connection
        IF attempt = 2 OR state = '08P01' OR state !~ '^(08|57P)' THEN
          PERFORM dp._channel_trouble();
        END IF;
    END;
  END LOOP;
-- out here, because the handlers above may be cancelled too: one cancel is two signals (dp._channel_abandon)
EXCEPTION WHEN query_canceled THEN
  PERFORM dp._channel_abandon();
  RAISE;
END $$;
COMMENT ON FUNCTION dp._channel_ask(text, uuid) IS 'One idempotent step on the channel: a broken connection is reopened and the step repeated once with the same request id; every trouble of the channel becomes DP006 with our own words.';
REVOKE ALL ON FUNCTION dp._channel_ask(text, uuid) FROM PUBLIC;
