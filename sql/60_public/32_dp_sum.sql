CREATE FUNCTION dp.dp_sum_request(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  alpha            double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  max_contribution double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_sum', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'sum', 'argument', argument, 'name', 'sum',
      'parameters', jsonb_strip_nulls(jsonb_build_object('lower', lower::text, 'upper', upper::text, 'resolution', resolution::text, 'max_contribution', max_contribution::text)))),
    'budget', dp.budget_ref(epsilon, rho, alpha, beta), 'mechanism', mechanism, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_sum_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS 'The request of a dp_sum call.';
REVOKE ALL ON FUNCTION dp.dp_sum_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_sum_result(jsonb) IS 'The value in the answer to a dp_sum request.';
REVOKE ALL ON FUNCTION dp.dp_sum_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  alpha            double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  max_contribution double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS numeric
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dp.dp_sum_result(dp.dp_query(dp.dp_sum_request(relation, argument, predicate, epsilon, rho, alpha, beta, lower, upper, resolution, max_contribution, mechanism, fresh, joins, aliases)));
END $$;
COMMENT ON FUNCTION dp.dp_sum(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS
  'Private sum of an expression over the rows that satisfy the predicate. Every value is clamped to [lower, upper] (default: what the declared bounds imply) and rounded to the resolution first; NULL contributes nothing. max_contribution bounds what one user contributes, else max_rows_per_unit times the largest value does. mechanism: auto (by expected error, from public facts), laplace, gaussian (with rho), r2t. epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_sum(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
