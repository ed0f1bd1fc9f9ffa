CREATE FUNCTION dp._ledger_mismatch() RETURNS TABLE (dataset text, role name, period timestamptz, node text, relation_key text, leaf_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  -- a scope is taken apart once, not once per leaf: one of 10,000 leaves is half a megabyte
  WITH charged AS MATERIALIZED (
    SELECT l.dataset, l.who, l.kind, COALESCE((l.scope ->> 'period')::timestamptz, '-infinity') AS period, l.scope ->> 'node' AS node, COALESCE(l.scope ->> 'relation', '') AS relation_key, l.scope -> 'leaves' AS leaves,
           l.epsilon, l.delta, l.rdp
    FROM dp.ledger l
  ), posted AS (
    SELECT l.dataset, r.role, r.period, l.node, l.relation_key, COALESCE(f.leaf, '') AS leaf_key, l.epsilon, l.delta, l.rdp
    FROM charged l
    CROSS JOIN LATERAL (SELECT ''::name AS role, '-infinity'::timestamptz AS period UNION ALL SELECT l.who, l.period WHERE l.kind IN ('charge', 'return')) r
    LEFT JOIN LATERAL jsonb_array_elements_text(l.leaves) f(leaf) ON true
  ), curves AS (
    SELECT c.dataset, c.role, c.period, c.node, c.relation_key, c.leaf_key, array_agg(c.total ORDER BY c.i) AS rdp FROM (
      SELECT p.dataset, p.role, p.period, p.node, p.relation_key, p.leaf_key, u.i, sum(u.v) AS total
      FROM posted p, unnest(p.rdp) WITH ORDINALITY u(v, i) GROUP BY 1, 2, 3, 4, 5, 6, 7) c
    GROUP BY 1, 2, 3, 4, 5, 6
  ), summed AS (
    SELECT s.*, c.rdp FROM (
      SELECT p.dataset, p.role, p.period, p.node, p.relation_key, p.leaf_key, sum(p.epsilon) AS epsilon, sum(p.delta) AS delta
      FROM posted p GROUP BY 1, 2, 3, 4, 5, 6) s
    LEFT JOIN curves c USING (dataset, role, period, node, relation_key, leaf_key)
  )
  SELECT COALESCE(a.dataset, s.dataset), COALESCE(a.role, s.role), COALESCE(a.period, s.period), COALESCE(a.node, s.node), COALESCE(a.relation_key, s.relation_key), COALESCE(a.leaf_key, s.leaf_key)
  FROM dp.account a FULL JOIN summed s USING (dataset, role, period, node, relation_key, leaf_key)
  WHERE COALESCE(a.spent_epsilon, 0) <> COALESCE(s.epsilon, 0) OR COALESCE(a.spent_delta, 0) <> COALESCE(s.delta, 0)
     OR COALESCE(a.spent_rdp, '{}') <> COALESCE(s.rdp, '{}')
$$;
COMMENT ON FUNCTION dp._ledger_mismatch() IS 'Accounts whose total is not the sum of their ledger rows: none, ever.';
REVOKE ALL ON FUNCTION dp._ledger_mismatch() FROM PUBLIC;
