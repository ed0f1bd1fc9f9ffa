CREATE FUNCTION dp.dp_decide_detail_request(
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
  fallback    boolean DEFAULT false,
  fresh       boolean DEFAULT false,
  path        name[] DEFAULT current_schemas(false)) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_decide_detail', 'query', COALESCE(query, ''), 'path', to_jsonb(COALESCE(path, '{}')),
    'decide', jsonb_strip_nulls(jsonb_build_object('synthetic', dp.relation_ref(synthetic) - 'alias', 'tau', tau::text, 'tau_percent', tau_percent::text,
      'policy', CASE WHEN fallback THEN 'fallback' ELSE 'report' END,
      'parameters', jsonb_build_object('theta', theta::text, 'beta', beta::text, 'delta', delta::text, 'score', score, 'largest', largest::text))),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', COALESCE(mechanism, 'auto'), 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_decide_detail_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) IS 'The request of a dp_decide_detail call.';
REVOKE ALL ON FUNCTION dp.dp_decide_detail_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_detail_request(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide_detail_result(answer jsonb) RETURNS TABLE (decision boolean, text text, mechanism text, extension boolean, epsilon numeric, synthetic_answer numeric, low numeric, high numeric, estimate numeric, answer numeric, warning text, provenance text)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (d ->> 'decision')::boolean, d ->> 'text', d ->> 'mechanism', (d ->> 'extension')::boolean, (d ->> 'epsilon')::numeric, (d ->> 'synthetic')::numeric,
         (d ->> 'low')::numeric, (d ->> 'high')::numeric, (d ->> 'estimate')::numeric, (answer #>> '{rows,0,0}')::numeric, d ->> 'warning', d ->> 'provenance'
  FROM jsonb_array_elements(answer -> 'decisions') d
$$;
COMMENT ON FUNCTION dp.dp_decide_detail_result(jsonb) IS 'The decision in the answer to a dp_decide_detail request.';
REVOKE ALL ON FUNCTION dp.dp_decide_detail_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_detail_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide_detail(
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
  fallback    boolean DEFAULT false,
  fresh       boolean DEFAULT false,
  path        name[] DEFAULT current_schemas(false)) RETURNS TABLE (decision boolean, text text, mechanism text, extension boolean, epsilon numeric, synthetic_answer numeric, low numeric, high numeric, estimate numeric, answer numeric, warning text, provenance text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.* FROM dp.dp_decide_detail_result(dp.dp_query(dp.dp_decide_detail_request(query, synthetic, tau, tau_percent, epsilon, rho, mechanism, theta, beta, delta, score, largest, fallback, fresh, path))) r
$$;
COMMENT ON FUNCTION dp.dp_decide_detail(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) IS
  'dp_decide with everything that may be said: the decision and its text, the mechanism and whether it is an extension of the paper, the epsilon (with rho: the rho) of the decision, the synthetic answer, the open interval (low, high) that the private answer was compared with, the noisy private answer where the mechanism releases one, the answer to use, a warning from public values where the decision may be wrong, and where the synthetic table came from. fallback: where the bound is unmet the answer to use is a private one; if the mechanism releases no estimate, its price is reserved too, and given back if the bound is satisfied. epsilon-DP as dp_decide, with a fallback for both prices together.';
REVOKE ALL ON FUNCTION dp.dp_decide_detail(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_detail(text, regclass, numeric, numeric, double precision, double precision, text, numeric, numeric, numeric, text, numeric, boolean, boolean, name[]) TO dp_analyst, dp_gateway;
