CREATE FUNCTION dp.dp_count_request(
  relation  regclass,
  predicate text DEFAULT NULL,
  epsilon   double precision DEFAULT NULL,
  rho       double precision DEFAULT NULL,
  alpha     double precision DEFAULT NULL,
  beta      double precision DEFAULT NULL,
  what      text DEFAULT 'rows',
  mechanism text DEFAULT NULL,
  fresh     boolean DEFAULT false,
  joins     regclass[] DEFAULT NULL,
  aliases   name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_count', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'count', 'argument', CASE what WHEN 'rows' THEN '*' END, 'distinct', what IS NOT DISTINCT FROM 'units')),
    'budget', dp.budget_ref(epsilon, rho, alpha, beta), 'mechanism', mechanism, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_count_request(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) IS 'The request of a dp_count call.';
REVOKE ALL ON FUNCTION dp.dp_count_request(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_count_request(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_count_result(answer jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::bigint
$$;
COMMENT ON FUNCTION dp.dp_count_result(jsonb) IS 'The count in the answer to a dp_count request.';
REVOKE ALL ON FUNCTION dp.dp_count_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_count_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_count(
  relation  regclass,
  predicate text DEFAULT NULL,
  epsilon   double precision DEFAULT NULL,
  rho       double precision DEFAULT NULL,
  alpha     double precision DEFAULT NULL,
  beta      double precision DEFAULT NULL,
  what      text DEFAULT 'rows',
  mechanism text DEFAULT NULL,
  fresh     boolean DEFAULT false,
  joins     regclass[] DEFAULT NULL,
  aliases   name[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dp.dp_count_result(dp.dp_query(dp.dp_count_request(relation, predicate, epsilon, rho, alpha, beta, what, mechanism, fresh, joins, aliases)));
END $$;
COMMENT ON FUNCTION dp.dp_count(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) IS
  'Private number of rows (what => ''rows'') or of privacy units (''units'') that satisfy the predicate: the exact integer plus discrete Laplace (epsilon) or discrete Gaussian (rho) noise. epsilon-DP, resp. rho-zCDP, for adding or removing one unit with all it owns. Not clamped at 0.';
REVOKE ALL ON FUNCTION dp.dp_count(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_count(regclass, text, double precision, double precision, double precision, double precision, text, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
