COMMENT ON SCHEMA dp IS 'pg_epsilon: differential privacy. Analysts call dp_* functions; owners CALL policy procedures; dp.budget shows what is left.';
REVOKE ALL ON SCHEMA dp FROM PUBLIC;
GRANT USAGE ON SCHEMA dp TO dp_owner, dp_channel, dp_gateway, dp_admin, dp_analyst, dp_auth, dp_planner;
