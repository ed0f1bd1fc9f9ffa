CREATE FUNCTION dp._allotments() RETURNS TABLE (role name, dataset text, epsilon numeric, delta numeric, epsilon_left numeric, used numeric)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.role, r.dataset, r.epsilon, r.delta, b.epsilon, b.used
  FROM dp.role_allotment r CROSS JOIN LATERAL dp._budget_left(r.dataset, r.role) b
  WHERE pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._allotments() IS 'Rows of dp.allotments for who asks.';
REVOKE ALL ON FUNCTION dp._allotments() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._allotments() TO dp_admin;
CREATE VIEW dp.allotments AS SELECT * FROM dp._allotments();
COMMENT ON VIEW dp.allotments IS 'For owners: what each role, dp_planner too, may spend of a dataset, and how much of its allotment is left (epsilon_left: the largest epsilon of one more question at its most spent partition). What a role asked stays its own.';
GRANT SELECT ON dp.allotments TO dp_admin;
