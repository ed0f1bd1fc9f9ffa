CREATE FUNCTION dp.relation_ref(relation regclass) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION dp.relation_ref(regclass) IS 'A relation by name, as requests carry it: OIDs differ between the facade and the private database.';
REVOKE ALL ON FUNCTION dp.relation_ref(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.relation_ref(regclass) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.budget_ref(epsilon double precision, rho double precision, alpha double precision, beta double precision) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
  SELECT NULLIF(jsonb_strip_nulls(jsonb_build_object('epsilon', epsilon::text, 'rho', rho::text, 'alpha', alpha::text, 'beta', beta::text)), '{}'::jsonb)
$$;
COMMENT ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) IS 'The budget member of a request: the shortest decimal text of each number, so that 0.1 costs exactly 0.1.';
REVOKE ALL ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) TO dp_analyst, dp_gateway;
