CREATE FUNCTION dp._channel_close() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp_link.dblink_disconnect('dp_ledger');
EXCEPTION WHEN OTHERS THEN
  NULL;
END $$;
COMMENT ON FUNCTION dp._channel_close() IS 'Drops this backend''s channel, if there is one.';
REVOKE ALL ON FUNCTION dp._channel_close() FROM PUBLIC;

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
  PERFORM dp_link.dblink_connect('dp_ledger', 'dp_ledger');
  SELECT t.hello INTO there FROM dp_link.dblink('dp_ledger', 'SELECT dp._hello()') AS t(hello text);
  IF there IS DISTINCT FROM dp._hello() OR pg_is_in_recovery() THEN
    PERFORM dp._channel_close();
    RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = 'the ledger channel leads to another server or database', HINT = 'This is a clone, a restored copy or a standby: a superuser runs CALL dp.repair_channel().';
  END IF;
END $$;
COMMENT ON FUNCTION dp._channel_open() IS 'Opens this backend''s channel, a loopback connection of the engine''s own whose commits no caller can undo, and checks that it leads to this very database.';
REVOKE ALL ON FUNCTION dp._channel_open() FROM PUBLIC;
