CREATE FUNCTION dp.dp_quantile_request(
  relation         regclass,
  argument         text,
  fraction         double precision,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_quantile', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'percentile_disc', 'argument', argument, 'name', 'quantile',
      'parameters', jsonb_strip_nulls(jsonb_build_object('fraction', fraction::text, 'lower', lower::text, 'upper', upper::text, 'resolution', resolution::text)))),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', NULL, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_quantile_request(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) IS 'The request of a dp_quantile call.';
REVOKE ALL ON FUNCTION dp.dp_quantile_request(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_quantile_request(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_quantile_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_quantile_result(jsonb) IS 'The value in the answer to a dp_quantile request.';
REVOKE ALL ON FUNCTION dp.dp_quantile_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_quantile_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_quantile(
  relation         regclass,
  argument         text,
  fraction         double precision,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS numeric
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp.dp_quantile_result(dp.dp_query(dp.dp_quantile_request(relation, argument, fraction, predicate, epsilon, rho, lower, upper, resolution, fresh, joins, aliases)))
$$;
COMMENT ON FUNCTION dp.dp_quantile(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) IS
  'Private quantile of an expression, fraction in [0, 1]: the exponential mechanism over the declared range in steps of the resolution (at most 65,536 points). epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_quantile(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_quantile(regclass, text, double precision, text, double precision, double precision, double precision, double precision, double precision, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
