-- Published releases (dp_release_numeric, publish) are ordinary tables here, not the extension's: a dump has them.
DO $$
DECLARE
  owner pg_catalog.name;
BEGIN
  SELECT r.rolname INTO owner FROM pg_catalog.pg_namespace n
  JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
  WHERE n.nspname OPERATOR(pg_catalog.=) 'dp_release' AND NOT r.rolsuper
    AND r.rolname OPERATOR(pg_catalog.<>) 'dp_owner';
  IF FOUND THEN
    RAISE EXCEPTION 'schema dp_release belongs to %', owner USING ERRCODE = 'DP006',
      HINT = 'Published releases stand there. Rename that schema, then run the install script again.';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'dp_release') THEN
    CREATE SCHEMA dp_release;
  END IF;
END $$;
ALTER SCHEMA dp_release OWNER TO dp_owner;
REVOKE ALL ON SCHEMA dp_release FROM PUBLIC;
GRANT USAGE ON SCHEMA dp_release TO dp_reader, dp_admin, dp_analyst;
COMMENT ON SCHEMA dp_release IS
  'pg_epsilon: published releases of dp_release_numeric. Its tables are made and dropped by pg_epsilon alone.';
