CREATE FUNCTION dp._channel_close() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_link.dblink_disconnect('dp_ledger');
EXCEPTION WHEN OTHERS THEN
  NULL;
END $$;
COMMENT ON FUNCTION dp._channel_close() IS 'Drops this backend''s channel, if there is one.';
REVOKE ALL ON FUNCTION dp._channel_close() FROM PUBLIC;

CREATE FUNCTION dp._channel_abandon() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- A cancel is two signals, to the backend and to its process group. Where the second one arrives in here, the step is
  -- taken again: the other end would work on for a caller who is gone.
  FOR attempt IN 1 .. 8 LOOP
    BEGIN
      IF 'dp_ledger' = ANY (dp_link.dblink_get_connections()) THEN
        PERFORM dp_link.dblink_cancel_query('dp_ledger');
        PERFORM dp_link.dblink_disconnect('dp_ledger');
      END IF;
      RETURN;
    EXCEPTION
      WHEN query_canceled THEN
        NULL;
      WHEN OTHERS THEN
        PERFORM dp._channel_close();
        RETURN;
    END;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._channel_abandon() IS 'Cancels what the other end of this backend''s channel does and drops the channel, also if one more cancel arrives meanwhile.';
REVOKE ALL ON FUNCTION dp._channel_abandon() FROM PUBLIC;

CREATE FUNCTION dp._channel_open() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  there text;
BEGIN
  IF 'dp_ledger' = ANY (dp_link.dblink_get_connections()) THEN
    BEGIN
      IF dp_link.dblink_is_busy('dp_ledger') = 0 THEN
        RETURN;
      END IF;
    EXCEPTION WHEN OTHERS THEN
      NULL;
    END;
    PERFORM dp._channel_close();
  END IF;
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = 'this server is a standby: no question is answered on it', HINT = 'Ask the primary. Once this one is promoted, the administrator types CALL dp.confirm_ledger(''all'', add_epsilon => what the old primary may have spent that this copy lacks).';
  END IF;
  PERFORM dp_link.dblink_connect('dp_ledger', 'dp_ledger');
  SELECT t.hello INTO there FROM dp_link.dblink('dp_ledger', 'SELECT dp._hello()') AS t(hello text);
  IF there IS DISTINCT FROM dp._hello() THEN
    PERFORM dp._channel_close();
    RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = 'the ledger channel leads to another server or database', HINT = 'This is a clone, a restored copy or a promoted standby: a superuser runs CALL dp.repair_channel()'
      || CASE WHEN EXISTS (SELECT FROM dp.dataset d WHERE dp._frozen(d.incarnation)) THEN '; after it the accounts are frozen still, until the administrator types CALL dp.confirm_ledger(''all'', add_epsilon => what the original may have spent that this copy lacks).' ELSE '.' END;
  END IF;
END $$;
COMMENT ON FUNCTION dp._channel_open() IS 'Opens this backend''s channel, a loopback connection of the engine''s own whose commits no caller can undo, and checks that it leads to this very database.';
REVOKE ALL ON FUNCTION dp._channel_open() FROM PUBLIC;
