CREATE PROCEDURE dp.repair_channel()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  home name;
  login name := 'dp_channel_' || (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  f record;
  password text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
  options text := '-c lock_timeout=5s -c idle_in_transaction_session_timeout=2s -c client_connection_check_interval=500ms -c search_path=pg_catalog -c synchronous_commit=on'
    -- whatever ALTER DATABASE or ALTER ROLE says: no time limit inside a mechanism (composition.md 10.3), and charges write
    || ' -c statement_timeout=0 -c default_transaction_read_only=off -c default_transaction_isolation=read\ committed'
    || CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN ' -c transaction_timeout=0' ELSE '' END;
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
  -- a login and a secret of this database's own: another private database of the cluster keeps its channel
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login) THEN
    EXECUTE format('CREATE ROLE %I', login);
  END IF;
  -- built here and run by EXECUTE: the password is in no log, even under log_statement = all
  EXECUTE format('ALTER ROLE %I LOGIN INHERIT NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB NOREPLICATION CONNECTION LIMIT 200 VALID UNTIL ''infinity'' PASSWORD %L', login, password);
  -- no user's rows may decide that a read runs out of temporary files (53400)
  EXECUTE format('ALTER ROLE %I SET temp_file_limit = -1', login);
  EXECUTE format('GRANT dp_channel TO %I', login);
  EXECUTE format('COMMENT ON ROLE %I IS %L', login, format('pg_epsilon: the ledger channel''s login of database %s', current_database()));
  EXECUTE format('CREATE USER MAPPING FOR dp_owner SERVER dp_ledger OPTIONS (user %L, password %L)', login, password);
  -- 0.1.0 had one login for the whole cluster
  ALTER ROLE dp_channel NOLOGIN INHERIT CONNECTION LIMIT -1 PASSWORD NULL;
  ALTER ROLE dp_channel RESET ALL;
  FOR f IN SELECT d.datname FROM pg_database d WHERE d.datallowconn LOOP
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM dp_channel, %I', f.datname, login);
  END LOOP;
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), login);
  FOR f IN SELECT r.rolname FROM pg_roles r WHERE r.rolname ~ '^dp_channel_[0-9]+$' AND pg_has_role(r.oid, 'dp_channel', 'MEMBER')
             AND NOT EXISTS (SELECT FROM pg_database d WHERE d.oid::text = substr(r.rolname, 12)) LOOP
    BEGIN
      EXECUTE format('DROP ROLE %I', f.rolname);
    EXCEPTION WHEN dependent_objects_still_exist OR object_in_use THEN
      NULL;
    END;
  END LOOP;
END $$;
COMMENT ON PROCEDURE dp.repair_channel() IS
  'Superuser: (re)makes the ledger channel of this database: dblink closed to everyone else, a foreign server to itself, a login of its own, dp_channel_<oid of the database>, member of dp_channel, with a fresh random password. Other private databases of the cluster keep theirs. It never unfreezes accounts. pg_hba.conf must say scram-sha-256 for +dp_channel on 127.0.0.1.';
REVOKE ALL ON PROCEDURE dp.repair_channel() FROM PUBLIC;
