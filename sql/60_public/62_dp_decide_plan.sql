CREATE FUNCTION dp.dp_decide_plan_request(
  query       text,
  synthetic   regclass,
  tau         numeric DEFAULT NULL,
  tau_percent numeric DEFAULT NULL,
  epsilon     double precision DEFAULT NULL,
  delta       numeric DEFAULT 0.05,
  beta        numeric DEFAULT NULL,
  theta       numeric DEFAULT NULL,
  largest     numeric DEFAULT NULL,
  path        name[] DEFAULT current_schemas(false)) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_decide_plan', 'query', COALESCE(query, ''), 'path', to_jsonb(COALESCE(path, '{}')),
    'decide', jsonb_strip_nulls(jsonb_build_object('synthetic', dp.relation_ref(synthetic) - 'alias', 'tau', tau::text, 'tau_percent', COALESCE(tau_percent::text, CASE WHEN tau IS NULL THEN '5' END),
      'policy', 'report',
      'parameters', jsonb_build_object('theta', theta::text, 'beta', beta::text, 'delta', delta::text, 'largest', largest::text))),
    'budget', dp.budget_ref(epsilon, NULL, NULL, NULL), 'mechanism', 'auto', 'fresh', false, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_decide_plan_request(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) IS 'The request of a dp_decide_plan call.';
REVOKE ALL ON FUNCTION dp.dp_decide_plan_request(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_plan_request(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide_plan_result(answer jsonb) RETURNS TABLE (mechanism text, extension boolean, tau_min numeric, epsilon_needed numeric, recommended boolean, note text)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT d ->> 'mechanism', (d ->> 'extension')::boolean, (d ->> 'tau_min')::numeric, (d ->> 'epsilon_needed')::numeric, (d ->> 'recommended')::boolean, d ->> 'note'
  FROM jsonb_array_elements(answer -> 'decide') WITH ORDINALITY e(d, i) ORDER BY i
$$;
COMMENT ON FUNCTION dp.dp_decide_plan_result(jsonb) IS 'The table in the answer to a dp_decide_plan request.';
REVOKE ALL ON FUNCTION dp.dp_decide_plan_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_plan_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_decide_plan(
  query       text,
  synthetic   regclass,
  tau         numeric DEFAULT NULL,
  tau_percent numeric DEFAULT NULL,
  epsilon     double precision DEFAULT NULL,
  delta       numeric DEFAULT 0.05,
  beta        numeric DEFAULT NULL,
  theta       numeric DEFAULT NULL,
  largest     numeric DEFAULT NULL,
  path        name[] DEFAULT current_schemas(false)) RETURNS TABLE (mechanism text, extension boolean, tau_min numeric, epsilon_needed numeric, recommended boolean, note text)
LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.* FROM dp.dp_decide_plan_result(dp.dp_plan(dp.dp_decide_plan_request(query, synthetic, tau, tau_percent, epsilon, delta, beta, theta, largest, path))) r
$$;
COMMENT ON FUNCTION dp.dp_decide_plan(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) IS
  'What a decision could tell apart, before it is paid for: for each mechanism the least tau at which it is right with probability 1 - delta for this epsilon (where the two answers are equal, and where they are two tau or more apart), the epsilon it needs for this tau (without tau: 5 percent of the synthetic answer), and what that rests on. NULL: there is no such theorem. r2t and svt need a guess of the largest value (of a user''s contribution): largest. Free; from public values only, the synthetic answer among them: nothing runs on private rows.';
REVOKE ALL ON FUNCTION dp.dp_decide_plan(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_decide_plan(text, regclass, numeric, numeric, double precision, numeric, numeric, numeric, numeric, name[]) TO dp_analyst, dp_gateway;
