CREATE FUNCTION dp.dp_group_by_request(
  relation   regclass,
  keys       text[],
  aggregates text[] DEFAULT '{count(*)}',
  predicate  text DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  rho        double precision DEFAULT NULL,
  alpha      double precision DEFAULT NULL,
  beta       double precision DEFAULT NULL,
  mechanism  text DEFAULT NULL,
  fresh      boolean DEFAULT false,
  joins      regclass[] DEFAULT NULL,
  aliases    name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_group_by', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', to_jsonb(COALESCE(keys, '{}')),
    'aggregates', to_jsonb(COALESCE(aggregates, '{}')), 'budget', dp.budget_ref(epsilon, rho, alpha, beta), 'mechanism', mechanism, 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_group_by_request(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS 'The request of a dp_group_by call.';
REVOKE ALL ON FUNCTION dp.dp_group_by_request(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_group_by_request(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_group_by_result(answer jsonb) RETURNS TABLE (key jsonb, value jsonb)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (SELECT COALESCE(jsonb_object_agg(answer -> 'names' ->> (i::int - 1), v), '{}') FROM jsonb_array_elements(r) WITH ORDINALITY e(v, i) WHERE i <= (answer ->> 'keys')::int),
         (SELECT COALESCE(jsonb_object_agg(answer -> 'names' ->> (i::int - 1), (v #>> '{}')::numeric), '{}') FROM jsonb_array_elements(r) WITH ORDINALITY e(v, i) WHERE i > (answer ->> 'keys')::int)
  FROM jsonb_array_elements(answer -> 'rows') WITH ORDINALITY rows(r, n) ORDER BY n
$$;
COMMENT ON FUNCTION dp.dp_group_by_result(jsonb) IS 'The groups in the answer to a dp_group_by request.';
REVOKE ALL ON FUNCTION dp.dp_group_by_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_group_by_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_group_by(
  relation   regclass,
  keys       text[],
  aggregates text[] DEFAULT '{count(*)}',
  predicate  text DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  rho        double precision DEFAULT NULL,
  alpha      double precision DEFAULT NULL,
  beta       double precision DEFAULT NULL,
  mechanism  text DEFAULT NULL,
  fresh      boolean DEFAULT false,
  joins      regclass[] DEFAULT NULL,
  aliases    name[] DEFAULT NULL) RETURNS TABLE (key jsonb, value jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.key, r.value FROM dp.dp_group_by_result(dp.dp_query(dp.dp_group_by_request(relation, keys, aggregates, predicate, epsilon, rho, alpha, beta, mechanism, fresh, joins, aliases))) r
$$;
COMMENT ON FUNCTION dp.dp_group_by(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) IS
  'Private counts per group: one row for every combination of the declared domains of the keys, empty ones too. aggregates: count(*), count(x), count(distinct unit), each with FILTER; the budget is split equally over them. epsilon-DP, resp. rho-zCDP, for one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_group_by(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_group_by(regclass, text[], text[], text, double precision, double precision, double precision, double precision, text, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
