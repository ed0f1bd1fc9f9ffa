CREATE FUNCTION dp.dp_decide_request(
  query       text,
  synthetic   regclass,
  tau         numeric DEFAULT NULL,
  tau_percent numeric DEFAULT NULL,
  epsilon     double precision DEFAULT NULL,
  rho         double precision DEFAULT NULL,
  mechanism   text DEFAULT 'auto',
  theta       numeric DEFAULT NULL,
  beta        numeric DEFAULT NULL,
  delta       numeric DEFAULT NULL,
  score       text DEFAULT NULL,
  largest     numeric DEFAULT NULL,
  fresh       boolean DEFAULT false,
  path        name[] DEFAULT current_schemas(false)) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_decide', 'query', COALESCE(query, ''), 'path', to_jsonb(COALESCE(path, '{}')),
    'decide', jsonb_strip_nulls(jsonb_build_object('synthetic', dp.relation_ref(synthetic) - 'alias', 'tau', tau::text, 'tau_percent', tau_percent::text,
      'policy', 'report',
      'parameters', jsonb_build_object('theta', theta::text, 'beta', beta::text, 'delta', delta::text, 'score', score, 'largest', largest::text))),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', COALESCE(mechanism, 'auto'), 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_decide_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) IS 'The request of a dp_decide call.';
REVOKE ALL ON FUNCTION dp.dp_decide_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide_result(answer jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{decisions,0,decision}')::boolean
$$;
COMMENT ON FUNCTION dp.dp_decide_result(jsonb) IS 'The decision in the answer to a dp_decide request.';
REVOKE ALL ON FUNCTION dp.dp_decide_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide(
  query       text,
  synthetic   regclass,
  tau         numeric DEFAULT NULL,
  tau_percent numeric DEFAULT NULL,
  epsilon     double precision DEFAULT NULL,
  rho         double precision DEFAULT NULL,
  mechanism   text DEFAULT 'auto',
  theta       numeric DEFAULT NULL,
  beta        numeric DEFAULT NULL,
  delta       numeric DEFAULT NULL,
  score       text DEFAULT NULL,
  largest     numeric DEFAULT NULL,
  fresh       boolean DEFAULT false,
  path        name[] DEFAULT current_schemas(false)) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp.dp_decide_result(dp.dp_query(dp.dp_decide_request(query, synthetic, tau, tau_percent, epsilon, rho, mechanism, theta, beta, delta, score, largest, fresh, path)))
$$;
COMMENT ON FUNCTION dp.dp_decide(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) IS
  'DP-PQD: true if the private answer to the query is within tau (tau_percent: in percent of the synthetic answer) of the answer that the registered synthetic table gives, false if not; a tau apart is too far. query: one SELECT of one aggregate over the relation, its synthetic table or {table}. epsilon-DP (rho: rho-zCDP, mechanism lm) for adding or removing one unit with all it owns, on top of what the synthetic table cost. mechanism: auto; count: lm, em, em_naive; sum: lm, r2t, svt, svt_basic; quantiles: hist, em; average: lm, r2t; not in the paper: em_unclamped, randomised_response, r2t_geo, r2t_split, em_tight, hist_one, avg_direct. A NULL where a number belongs means its default. A decision that was made before is free; fresh pays for a new one.';
REVOKE ALL ON FUNCTION dp.dp_decide(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, name[]) TO dp_analyst, dp_gateway;
