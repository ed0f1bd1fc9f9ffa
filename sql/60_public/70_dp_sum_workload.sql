CREATE FUNCTION dp.dp_sum_workload_request(
  relation   regclass,
  value      text,
  thresholds numeric[] DEFAULT NULL,
  ranges     numrange[] DEFAULT NULL,
  workload   double precision[] DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  rho        double precision DEFAULT NULL,
  predicate  text DEFAULT NULL,
  by         text DEFAULT NULL,
  per        text DEFAULT 'row',
  options    jsonb DEFAULT NULL,
  lower      double precision DEFAULT NULL,
  upper      double precision DEFAULT NULL,
  resolution double precision DEFAULT NULL,
  fresh      boolean DEFAULT false,
  joins      regclass[] DEFAULT NULL,
  aliases    name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
  SELECT jsonb_build_object('version', 1, 'call', 'dp_sum_workload', 'from', dp.relation_ref(relation, aliases[1]), 'joins', dp.joins_ref(joins, aliases), 'where', predicate, 'keys', CASE WHEN by IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(by) END,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'sum', 'argument', value, 'name', 'theta',
      'parameters', jsonb_strip_nulls(jsonb_build_object('lower', lower::text, 'upper', upper::text, 'resolution', resolution::text)))),
    'workload', jsonb_strip_nulls(jsonb_build_object('thresholds', to_jsonb(thresholds::text[]), 'ranges', to_jsonb(ranges::text[]), 'matrix', to_jsonb(workload), 'per', per, 'options', options)),
    'budget', dp.budget_ref(epsilon, rho, NULL, NULL), 'mechanism', 'auto', 'fresh', fresh, 'settings', dp.session_settings())
$$;
COMMENT ON FUNCTION dp.dp_sum_workload_request(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) IS 'The request of a dp_sum_workload call.';
REVOKE ALL ON FUNCTION dp.dp_sum_workload_request(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_workload_request(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum_workload_result(answer jsonb) RETURNS TABLE (query integer, low_edge numeric, high_edge numeric, sum numeric, count numeric, avg numeric, stderr numeric, low numeric, high numeric, key text)
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (r ->> 0)::integer, (r ->> 1)::numeric, (r ->> 2)::numeric, (r ->> 3)::numeric, (r ->> 4)::numeric, (r ->> 5)::numeric, (r ->> 6)::numeric, (r ->> 7)::numeric, (r ->> 8)::numeric, r ->> 9
  FROM jsonb_array_elements(answer #> '{workload,rows}') r
$$;
COMMENT ON FUNCTION dp.dp_sum_workload_result(jsonb) IS 'The rows of the answer to a dp_sum_workload request.';
REVOKE ALL ON FUNCTION dp.dp_sum_workload_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_workload_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_sum_workload(
  relation   regclass,
  value      text,
  thresholds numeric[] DEFAULT NULL,
  ranges     numrange[] DEFAULT NULL,
  workload   double precision[] DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  rho        double precision DEFAULT NULL,
  predicate  text DEFAULT NULL,
  by         text DEFAULT NULL,
  per        text DEFAULT 'row',
  options    jsonb DEFAULT NULL,
  lower      double precision DEFAULT NULL,
  upper      double precision DEFAULT NULL,
  resolution double precision DEFAULT NULL,
  fresh      boolean DEFAULT false,
  joins      regclass[] DEFAULT NULL,
  aliases    name[] DEFAULT NULL) RETURNS TABLE (query integer, low_edge numeric, high_edge numeric, sum numeric, count numeric, avg numeric, stderr numeric, low numeric, high numeric, key text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.* FROM dp.dp_sum_workload_result(dp.dp_query(dp.dp_sum_workload_request(relation, value, thresholds, ranges, workload, epsilon, rho, predicate, by, per, options, lower, upper, resolution, fresh, joins, aliases))) r
$$;
COMMENT ON FUNCTION dp.dp_sum_workload(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) IS
  'Many private sums of one value at once, with counts and averages: thresholds (sums of values at most each, ascending), ranges, or any matrix over the buckets between thresholds. One row per query; low and high hold what noise may do, high is NULL where theta truncates. by: a column or expression with a declared domain; then one row per key and query, key is the last column, and the groups share one price. per: row, or user (each user''s total). options: theta (none, a number, svt, recursive, exponential), method (auto, sqm, identity, workload, timm, tamm), strategy (auto, greedyh, p-identity, tree, wavelet), isotonic (auto, on, off), rho_split, ratio, split (of sqm: optimal, equal), aggregates (a list of sum, count, avg). One scan, one release: epsilon-DP (rho: rho-zCDP) for adding or removing one unit with all it owns.';
REVOKE ALL ON FUNCTION dp.dp_sum_workload(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_sum_workload(regclass, text, numeric[], numrange[], double precision[], double precision, double precision, text, text, text, jsonb, double precision, double precision, double precision, boolean, regclass[], name[]) TO dp_analyst, dp_gateway;
