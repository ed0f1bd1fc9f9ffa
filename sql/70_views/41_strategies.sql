CREATE FUNCTION dp._strategies() RETURNS TABLE (strategy text, queries integer, columns integer, bytes integer, mine boolean, theta numeric, workload jsonb, variances jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.strategy, s.queries, s.columns, octet_length(s.definition), m.mine, CASE WHEN m.mine THEN (s.shown ->> 'theta')::numeric END,
         CASE WHEN m.mine THEN s.shown -> 'workload' END, CASE WHEN m.mine THEN s.shown -> 'variances' END
  FROM dp.strategy s CROSS JOIN LATERAL (SELECT COALESCE(s.owner = dp._who(), false) AS mine) m
  ORDER BY m.mine DESC, s.workload, s.theta
$$;
COMMENT ON FUNCTION dp._strategies() IS 'Rows of dp.strategies for who asks.';
REVOKE ALL ON FUNCTION dp._strategies() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._strategies() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.strategies AS SELECT * FROM dp._strategies();
COMMENT ON VIEW dp.strategies IS 'Strategies of dp_sum_workload that need not be found again: your own workloads in full, of others size and strategy only.';
GRANT SELECT ON dp.strategies TO dp_analyst, dp_gateway, dp_admin;
