CREATE PROCEDURE dp.repair_channel()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  home name;
  f record;
  password text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
  options text := '-c lock_timeout=5s -c idle_in_transaction_session_timeout=2s -c client_connection_check_interval=500ms -c search_path=pg_catalog -c synchronous_commit=on'
    -- whatever ALTER DATABASE or ALTER ROLE says: no time limit inside a mechanism (composition.md 10.3), and charges write
    || ' -c statement_timeout=0 -c default_transaction_read_only=off -c default_transaction_isolation=read\ committed';
BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'dp.repair_channel needs a superuser', HINT = 'Run it with psql -U postgres.';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'dp_link') THEN
    CREATE SCHEMA dp_link;
  END IF;
  REVOKE ALL ON SCHEMA dp_link FROM PUBLIC;
  SELECT n.nspname INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink';
  IF home IS NULL THEN
    CREATE EXTENSION dblink SCHEMA dp_link;
  ELSIF home <> 'dp_link' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = format('dblink is installed in schema %I, where others can reach its connections', home),
      HINT = 'A named dblink connection belongs to the whole backend: ALTER EXTENSION dblink SET SCHEMA dp_link, or drop it, and run this again.';
  END IF;
  FOR f IN SELECT p.oid::regprocedure AS signature, p.proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
           JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass WHERE d.deptype = 'e' AND e.extname = 'dblink' LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.signature);
    IF f.proname NOT LIKE 'dblink\_connect\_u%' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO dp_owner', f.signature);
    END IF;
  END LOOP;
  GRANT USAGE ON SCHEMA dp_link TO dp_owner;
  DROP SERVER IF EXISTS dp_ledger CASCADE;
  EXECUTE format('CREATE SERVER dp_ledger FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, connect_timeout ''3'', options %L)',
                 current_setting('port'), current_database(), options);
  GRANT USAGE ON FOREIGN SERVER dp_ledger TO dp_owner;
  -- built here and run by EXECUTE: the password is in no log, even under log_statement = all
  EXECUTE format('ALTER ROLE dp_channel LOGIN NOINHERIT PASSWORD %L', password);
  EXECUTE format('CREATE USER MAPPING FOR dp_owner SERVER dp_ledger OPTIONS (user ''dp_channel'', password %L)', password);
  FOR f IN SELECT d.datname FROM pg_database d WHERE d.datallowconn LOOP
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM dp_channel', f.datname);
  END LOOP;
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO dp_channel', current_database());
END $$;
COMMENT ON PROCEDURE dp.repair_channel() IS
  'Superuser: (re)makes the ledger channel of this database: dblink closed to everyone else, a foreign server to itself, a fresh random password for dp_channel (which belongs to one private database per cluster). pg_hba.conf must say scram-sha-256 for 127.0.0.1.';
REVOKE ALL ON PROCEDURE dp.repair_channel() FROM PUBLIC;
