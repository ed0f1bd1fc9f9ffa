CREATE FUNCTION dp._allotments() RETURNS TABLE (role name, dataset text, epsilon numeric, delta numeric, epsilon_left numeric, used numeric, per interval, period_begins timestamptz, period_ends timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.role, r.dataset, r.epsilon, r.delta, b.epsilon, b.used, r.per, p.begins, p.ends
  FROM dp.role_allotment r CROSS JOIN LATERAL dp._budget_left(r.dataset, r.role) b LEFT JOIN LATERAL dp._period(r.since, r.per, now()) p ON true
  WHERE pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._allotments() IS 'Rows of dp.allotments for who asks.';
REVOKE ALL ON FUNCTION dp._allotments() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._allotments() TO dp_admin;
CREATE VIEW dp.allotments AS SELECT * FROM dp._allotments();
COMMENT ON VIEW dp.allotments IS 'For owners: what each role, dp_planner too, may spend of a dataset, and how much of its allotment is left (epsilon_left: the largest epsilon of one more question at its most spent partition). What a role asked stays its own. per: it renews after every such period, and epsilon_left is of the one that is now; NULL: it is for life.';
GRANT SELECT ON dp.allotments TO dp_admin;
