DO $$
DECLARE
  r record;
BEGIN
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    RAISE EXCEPTION 'the install script needs a superuser' USING HINT = 'Run it with psql -U postgres.';
  END IF;
  FOR r IN SELECT * FROM (VALUES
      ('dp_owner',   'NOLOGIN', 'owns schema dp; the engine runs as this role'),
      ('dp_channel', 'NOLOGIN INHERIT CONNECTION LIMIT -1', 'group: the ledger channels'' loopback logins, one a private database; may charge and answer, nothing else'),
      ('dp_auth',    'NOLOGIN', 'reads SCRAM verifiers for one function'),
      ('dp_gateway', 'LOGIN', 'the proxy''s login; give it a password'),
      ('dp_admin',   'NOLOGIN', 'group: keeps the privacy policy'),
      ('dp_planner', 'NOLOGIN', 'pays for what everybody uses'),
      ('dp_reader',  'LOGIN', 'the facade''s login for public tables'),
      ('dp_facade',  'NOLOGIN', 'owns every object of the facade'),
      ('dp_timescaledb', 'NOLOGIN', 'group: may use TimescaleDB''s own catalog and functions, which tell about rows'),
      ('dp_analyst', 'NOLOGIN', 'group: may ask dp_* questions')) AS v(name, attributes, purpose)
  LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r.name) THEN
      EXECUTE pg_catalog.format('CREATE ROLE %I', r.name);
    END IF;
    EXECUTE pg_catalog.format('ALTER ROLE %I NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB NOREPLICATION %s', r.name, r.attributes);
    EXECUTE pg_catalog.format('COMMENT ON ROLE %I IS %L', r.name, 'pg_epsilon: ' || r.purpose);
  END LOOP;
  GRANT dp_facade TO dp_gateway;
  GRANT dp_timescaledb TO dp_owner, dp_admin;
END $$;
\if :{?roles_only}
  \quit
\endif
