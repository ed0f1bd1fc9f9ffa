CREATE PROCEDURE dp.unharden_catalog()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  o record;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'dp.unharden_catalog needs a superuser', HINT = 'Run it with psql -U postgres.';
  END IF;
  CALL dp.before_pg_upgrade();
  FOR o IN SELECT x.kind, x.signature, array_to_string(array_agg(DISTINCT a.privilege_type), ', ') AS held
           FROM dp._extension_objects() x
           LEFT JOIN pg_class c ON x.kind <> 'ROUTINE' AND c.oid = x.oid LEFT JOIN pg_proc p ON x.kind = 'ROUTINE' AND p.oid = x.oid
           CROSS JOIN LATERAL aclexplode(COALESCE(c.relacl, p.proacl)) a
           WHERE x.closed AND a.grantee = 'dp_timescaledb'::regrole GROUP BY x.kind, x.signature LOOP
    EXECUTE format('GRANT %s ON %s %s TO PUBLIC', o.held, o.kind, o.signature);
    EXECUTE format('REVOKE ALL ON %s %s FROM dp_timescaledb', o.kind, o.signature);
  END LOOP;
  EXECUTE (SELECT format('REVOKE SELECT (%s) ON pg_class FROM PUBLIC', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum))
           FROM pg_attribute a WHERE a.attrelid = 'pg_class'::regclass AND NOT a.attisdropped);
  GRANT SELECT ON pg_class, pg_shdepend, pg_db_role_setting, pg_largeobject_metadata TO PUBLIC;
END $$;
COMMENT ON PROCEDURE dp.unharden_catalog() IS
  'Superuser, before the extension is dropped: gives PUBLIC back all that dp.harden_catalog() took in this database. Sizes and row counts of every relation are then to be seen by everybody.';
REVOKE ALL ON PROCEDURE dp.unharden_catalog() FROM PUBLIC;
