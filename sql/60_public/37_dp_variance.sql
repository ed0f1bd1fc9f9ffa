CREATE FUNCTION dp.dp_variance_request(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  sample           boolean DEFAULT true,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_variance', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', CASE WHEN sample THEN 'var_samp' ELSE 'var_pop' END, 'argument', argument, 'name', 'variance',
      'parameters', jsonb_strip_nulls(jsonb_build_object('lower', lower::text, 'upper', upper::text, 'resolution', resolution::text)))),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', mechanism, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_variance_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) IS 'The request of a dp_variance call.';
REVOKE ALL ON FUNCTION dp.dp_variance_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_variance_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_variance_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_variance_result(jsonb) IS 'The value in the answer to a dp_variance request.';
REVOKE ALL ON FUNCTION dp.dp_variance_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_variance_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_variance(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  sample           boolean DEFAULT true,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS numeric
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp.dp_variance_result(dp.dp_query(dp.dp_variance_request(relation, argument, predicate, epsilon, rho, lower, upper, resolution, sample, mechanism, fresh, joins, aliases)))
$$;
COMMENT ON FUNCTION dp.dp_variance(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) IS
  'Private variance of an expression from noisy count, sum and sum of squares about the middle of the range, a third of the budget each. NULL if the noisy count is below 2 (sample => false: below 1). epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_variance(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_variance(regclass, text, text, double precision, double precision, double precision, double precision, double precision, boolean, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
