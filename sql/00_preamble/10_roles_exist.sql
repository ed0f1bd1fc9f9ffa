DO $$
DECLARE
  missing text;
BEGIN
  SELECT string_agg(r.name, ', ') INTO missing
  FROM unnest(ARRAY['dp_owner','dp_channel','dp_auth','dp_gateway','dp_admin','dp_planner','dp_reader','dp_facade','dp_analyst']) AS r(name)
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles a WHERE a.rolname = r.name);
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION 'pg_epsilon needs roles that do not exist: %', missing
      USING ERRCODE = 'DP006', HINT = 'Run the install script pg_epsilon_install.sql with psql as a superuser: it creates the roles, the extension and the channel.';
  END IF;
END $$;
