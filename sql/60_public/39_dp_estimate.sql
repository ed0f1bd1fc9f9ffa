CREATE FUNCTION dp.dp_estimate_request(
  relation         regclass,
  aggregate        text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  alpha            double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_estimate', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(aggregate),
    'budget', dp.budget_ref(epsilon, rho, alpha, beta), 'mechanism', mechanism, 'fresh', fresh, 'bars', true, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_estimate_request(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS 'The request of a dp_estimate call.';
REVOKE ALL ON FUNCTION dp.dp_estimate_request(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_estimate_request(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_estimate_result(answer jsonb) RETURNS TABLE (value numeric, low numeric, high numeric, stderr numeric)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric, (answer #>> '{bars,0,0,0}')::numeric, (answer #>> '{bars,0,0,1}')::numeric, (answer #>> '{bars,0,0,2}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_estimate_result(jsonb) IS 'The value in the answer to a dp_estimate request.';
REVOKE ALL ON FUNCTION dp.dp_estimate_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_estimate_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_estimate(
  relation         regclass,
  aggregate        text,
  predicate        text DEFAULT NULL,
  epsilon          double precision DEFAULT NULL,
  rho              double precision DEFAULT NULL,
  alpha            double precision DEFAULT NULL,
  beta             double precision DEFAULT NULL,
  mechanism        text DEFAULT NULL,
  fresh            boolean DEFAULT false,
  joins            regclass[] DEFAULT NULL,
  aliases          name[] DEFAULT NULL) RETURNS TABLE (value numeric, low numeric, high numeric, stderr numeric)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.value, r.low, r.high, r.stderr FROM dp.dp_estimate_result(dp.dp_query(dp.dp_estimate_request(relation, aggregate, predicate, epsilon, rho, alpha, beta, mechanism, fresh, joins, aliases))) r
$$;
COMMENT ON FUNCTION dp.dp_estimate(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS
  'One aggregate, written as in SQL (''avg(charge) FILTER (WHERE age > 60)''), with its error bar at dp.confidence: the true value of the clamped data is in [low, high] with that probability; NULL: this end is unknown. The bars of an answer that was given before are free. epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_estimate(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_estimate(regclass, text, text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
