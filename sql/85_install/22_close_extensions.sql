CREATE PROCEDURE dp._close_extensions()
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  o record;
BEGIN
  -- USAGE of a schema stays: without it TimescaleDB's loader finds no end, and nobody can connect
  FOR o IN SELECT x.kind, x.signature, x.open_to_public FROM dp._extension_objects() x WHERE x.closed AND x.open_to_public IS NOT NULL LOOP
    EXECUTE format('GRANT %s ON %s %s TO dp_timescaledb', array_to_string(o.open_to_public, ', '), o.kind, o.signature);
    EXECUTE format('REVOKE ALL ON %s %s FROM PUBLIC', o.kind, o.signature);
  END LOOP;
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') THEN
    -- whose policies, jobs and grants were there before: all of them could use it
    FOR o IN EXECUTE 'SELECT DISTINCT r.rolname FROM _timescaledb_catalog.hypertable h JOIN pg_namespace n ON n.nspname = h.schema_name JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name'
      ' CROSS JOIN LATERAL (SELECT c.relowner UNION SELECT a.grantee FROM aclexplode(c.relacl) a UNION SELECT j.owner::oid FROM _timescaledb_config.bgw_job j WHERE j.hypertable_id = h.id) w(role) JOIN pg_roles r ON r.oid = w.role'
      ' WHERE NOT r.rolsuper AND r.rolname !~ ''^dp_'' AND NOT pg_has_role(r.oid, ''dp_analyst'', ''MEMBER'') AND NOT pg_has_role(r.oid, ''dp_timescaledb'', ''MEMBER'')' LOOP
      EXECUTE format('GRANT dp_timescaledb TO %I', o.rolname);
    END LOOP;
  END IF;
END $$;
COMMENT ON PROCEDURE dp._close_extensions() IS 'Superuser: takes TimescaleDB''s catalog and functions from PUBLIC and gives them to dp_timescaledb, and that to who owns, reads or writes a hypertable and is no analyst.';
REVOKE ALL ON PROCEDURE dp._close_extensions() FROM PUBLIC;

CREATE FUNCTION dp._harden_extensions() RETURNS event_trigger
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'timescaledb') THEN
    CALL dp._close_extensions();
  END IF;
EXCEPTION WHEN OTHERS THEN
  -- an update must not fail because of rights: dp.check() says what is open
  RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = 'TimescaleDB''s catalog and functions may tell analysts about rows until they are closed', HINT = 'A superuser runs CALL dp.harden_catalog().';
END $$;
COMMENT ON FUNCTION dp._harden_extensions() IS 'What an extension brings that tells about rows is closed as soon as it is there (dp.harden_catalog).';
REVOKE ALL ON FUNCTION dp._harden_extensions() FROM PUBLIC;
CREATE EVENT TRIGGER dp_harden_extensions ON ddl_command_end WHEN TAG IN ('CREATE EXTENSION', 'ALTER EXTENSION') EXECUTE FUNCTION dp._harden_extensions();
ALTER EVENT TRIGGER dp_harden_extensions ENABLE ALWAYS;
