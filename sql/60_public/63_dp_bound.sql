CREATE FUNCTION dp.dp_bound_request(
  relation   regclass,
  argument   text,
  predicate  text DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  theta      numeric DEFAULT NULL,
  upper      double precision DEFAULT NULL,
  resolution double precision DEFAULT NULL,
  fresh      boolean DEFAULT false,
  aliases    name[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN jsonb_build_object('version', 1, 'call', 'dp_bound', 'from', dp.relation_ref(relation, aliases[1]), 'joins', '[]'::jsonb, 'where', predicate, 'keys', '[]'::jsonb,
    'aggregates', jsonb_build_array(jsonb_build_object('function', 'bound', 'argument', argument, 'name', 'bound',
      'parameters', jsonb_strip_nulls(jsonb_build_object('theta', theta::text, 'upper', upper::text, 'resolution', resolution::text)))),
    'budget', dp.budget_ref(epsilon, NULL, NULL, NULL), 'mechanism', 'auto', 'fresh', fresh, 'settings', dp.session_settings());
END $$;
COMMENT ON FUNCTION dp.dp_bound_request(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) IS 'The request of a dp_bound call.';
REVOKE ALL ON FUNCTION dp.dp_bound_request(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_bound_request(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_bound_result(answer jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (answer #>> '{rows,0,0}')::numeric
$$;
COMMENT ON FUNCTION dp.dp_bound_result(jsonb) IS 'The value in the answer to a dp_bound request.';
REVOKE ALL ON FUNCTION dp.dp_bound_result(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_bound_result(jsonb) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.dp_bound(
  relation   regclass,
  argument   text,
  predicate  text DEFAULT NULL,
  epsilon    double precision DEFAULT NULL,
  theta      numeric DEFAULT NULL,
  upper      double precision DEFAULT NULL,
  resolution double precision DEFAULT NULL,
  fresh      boolean DEFAULT false,
  aliases    name[] DEFAULT NULL) RETURNS numeric
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT dp.dp_bound_result(dp.dp_query(dp.dp_bound_request(relation, argument, predicate, epsilon, theta, upper, resolution, fresh, aliases)))
$$;
COMMENT ON FUNCTION dp.dp_bound(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) IS
  'PrivateBoundDS of DP-PQD: a power of two, in steps of the resolution, up to which about a share theta (default 0.95) of the rows that satisfy the predicate have their value: a place to clamp a sum at. It is no bound on the largest value: up to (1 - theta) of the rows, the largest ones, lie above. It is at most the declared bound (or upper). Reliable from about 9 / ((1 - theta) * epsilon) rows on; with fewer it is often that bound. Values from 0 up, datasets whose unit is a row. epsilon-DP for adding or removing one row.';
REVOKE ALL ON FUNCTION dp.dp_bound(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_bound(regclass, text, text, double precision, numeric, double precision, double precision, boolean, name[]) TO dp_analyst, dp_gateway;
