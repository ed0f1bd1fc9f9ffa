CREATE FUNCTION dp.dp_sum_r2t_request(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  max_contribution double precision DEFAULT NULL,
  base             double precision DEFAULT NULL,
  truncation       text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_sum_r2t', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'sum', 'argument', argument, 'name', 'sum_r2t',
      'parameters', jsonb_strip_nulls(jsonb_build_object('lower', lower::text, 'upper', upper::text, 'resolution', resolution::text, 'max_contribution', max_contribution::text, 'base', base::text, 'truncation', truncation::text, 'beta', beta::text)))),
    'budget', dp.budget_ref(epsilon, NULL, NULL, NULL), 'mechanism', 'r2t', 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_sum_r2t_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS 'The request of a dp_sum_r2t call.';
REVOKE ALL ON FUNCTION dp.dp_sum_r2t_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_r2t_request(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum_r2t_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_sum_r2t_result(jsonb) IS 'The value in the answer to a dp_sum_r2t request.';
REVOKE ALL ON FUNCTION dp.dp_sum_r2t_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_r2t_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum_r2t(
  relation         regclass,
  argument         text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  lower            double precision DEFAULT NULL,
  upper            double precision DEFAULT NULL,
  resolution       double precision DEFAULT NULL,
  max_contribution double precision DEFAULT NULL,
  base             double precision DEFAULT NULL,
  truncation       text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS numeric
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp.dp_sum_r2t_result(dp.dp_query(dp.dp_sum_r2t_request(relation, argument, predicate, epsilon, beta, lower, upper, resolution, max_contribution, base, truncation, fresh, joins, aliases)))
$$;
COMMENT ON FUNCTION dp.dp_sum_r2t(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS
  'Private sum of an expression by R2T: for bounds that may be far above the largest contribution. The answer is at most the true sum with probability 1 - beta/2 (default 0.05); how far below is unknown. base: of the ladder of thresholds, 2 or 5.5; truncation: a contribution above a threshold is cut (min) or left out (filter; geo does it with less noise). epsilon-DP for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_sum_r2t(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_r2t(regclass, text, text, double precision, double precision, double precision, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
