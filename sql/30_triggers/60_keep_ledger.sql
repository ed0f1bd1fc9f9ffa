CREATE FUNCTION dp._keep_ledger() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- what a command will drop is not known before it runs (and afterwards this trigger is gone): go by the text, and refuse what hides it
  IF (current_query() ~* 'pg_epsilon|plpython3u|\mdp\M|\mdp_owner\M' OR (TG_TAG = 'DROP EXTENSION' AND current_query() !~* '^\s*drop\s'))
     AND EXISTS (SELECT FROM dp.ledger l WHERE l.seq > (SELECT COALESCE(max(e.last_seq), 0) FROM dp.ledger_export e)) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the ledger holds charges that were not exported',
      HINT = 'Save what SELECT * FROM dp.export_ledger() returns, then drop the extension: a spent budget must not be forgotten.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._keep_ledger() IS 'Refuses to drop the extension, alone or with its schema, while charges exist that nobody exported (composition.md 12).';
REVOKE ALL ON FUNCTION dp._keep_ledger() FROM PUBLIC;
CREATE EVENT TRIGGER dp_keep_ledger ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP SCHEMA', 'DROP OWNED') EXECUTE FUNCTION dp._keep_ledger();
ALTER EVENT TRIGGER dp_keep_ledger ENABLE ALWAYS;
