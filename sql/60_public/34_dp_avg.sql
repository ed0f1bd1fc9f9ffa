CREATE FUNCTION dp.dp_avg_request(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_avg', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'avg', 'argument', argument, 'name', 'avg',
      'parameters', jsonb_strip_nulls(jsonb_build_object('lower', lower::text, 'upper', upper::text, 'resolution', resolution::text)))),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', mechanism, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_avg_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS 'The request of a dp_avg call.';
REVOKE ALL ON FUNCTION dp.dp_avg_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_avg_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_avg_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_avg_result(jsonb) IS 'The value in the answer to a dp_avg request.';
REVOKE ALL ON FUNCTION dp.dp_avg_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_avg_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_avg(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS numeric
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dp.dp_avg_result(dp.dp_query(dp.dp_avg_request(relation, argument, predicate, epsilon, rho, lower, upper, resolution, mechanism, fresh, joins, aliases)));
END $$;
COMMENT ON FUNCTION dp.dp_avg(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS
  'Private average of an expression: a noisy sum about the middle of the range over a noisy count, half of the budget each, clamped to [lower, upper]. epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_avg(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_avg(regclass, text, text, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
