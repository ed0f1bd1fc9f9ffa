CREATE PROCEDURE dp.harden_catalog()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'dp.harden_catalog needs a superuser', HINT = 'Run it with psql -U postgres.';
  END IF;
  REVOKE SELECT ON pg_class FROM PUBLIC;
  EXECUTE (SELECT format('GRANT SELECT (%s) ON pg_class TO PUBLIC', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum))
           FROM pg_attribute a WHERE a.attrelid = 'pg_class'::regclass AND NOT a.attisdropped
             AND a.attname NOT IN ('reltuples', 'relpages', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid', 'relfilenode')
             AND (a.attnum > 0 OR a.attname IN ('tableoid', 'oid')));
  GRANT SELECT ON pg_class TO dp_owner;
  FOR f IN SELECT p.oid::regprocedure AS signature FROM dp._leaky_functions() p(oid) LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.signature);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO pg_monitor', f.signature);
  END LOOP;
  GRANT EXECUTE ON FUNCTION pg_control_system(), pg_current_wal_insert_lsn() TO dp_owner;
  REVOKE ALL ON pg_shdepend, pg_db_role_setting, pg_largeobject_metadata FROM PUBLIC;
  REVOKE CREATE ON SCHEMA public FROM PUBLIC;
  CALL dp._close_extensions();
END $$;
COMMENT ON PROCEDURE dp.harden_catalog() IS
  'Superuser: takes from PUBLIC, in this database, the catalog columns and functions that tell sizes, row counts and activity of protected relations. Members of pg_monitor keep the functions. TimescaleDB''s catalog and functions become those of dp_timescaledb.';
REVOKE ALL ON PROCEDURE dp.harden_catalog() FROM PUBLIC;
