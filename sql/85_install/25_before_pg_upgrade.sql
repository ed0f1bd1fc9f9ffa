CREATE PROCEDURE dp.before_pg_upgrade()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'dp.before_pg_upgrade needs a superuser', HINT = 'Run it with psql -U postgres.';
  END IF;
  -- pg_upgrade carries every changed right over, also on functions that the new version does not have, and stops there
  FOR f IN SELECT p.oid::regprocedure AS signature, i.initprivs IS NULL OR EXISTS (SELECT FROM aclexplode(i.initprivs) a WHERE a.grantee = 0) AS open,
                  EXISTS (SELECT FROM aclexplode(i.initprivs) a WHERE a.grantee = 'pg_monitor'::regrole) AS monitored
           FROM dp._leaky_functions() p(oid) LEFT JOIN pg_init_privs i ON i.objoid = p.oid AND i.classoid = 'pg_proc'::regclass LOOP
    IF f.open THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f.signature);
    END IF;
    IF NOT f.monitored THEN
      EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM pg_monitor', f.signature);
    END IF;
  END LOOP;
END $$;
COMMENT ON PROCEDURE dp.before_pg_upgrade() IS
  'Superuser, before pg_upgrade, when nobody but the administrator can connect any more: gives PUBLIC back the functions that dp.harden_catalog() took, because pg_upgrade stops at rights on a function that the new version does not have. CALL dp.harden_catalog() in the new cluster takes them again.';
REVOKE ALL ON PROCEDURE dp.before_pg_upgrade() FROM PUBLIC;
