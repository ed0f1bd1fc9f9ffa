CREATE FUNCTION dp._budget() RETURNS TABLE (dataset text, unit text, accountant text, epsilon numeric, delta numeric, epsilon_left numeric, your_epsilon numeric, your_epsilon_left numeric, used numeric, frozen boolean, relative_to text[], your_period interval, your_period_ends timestamptz, owed bigint, failures bigint, strict boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT d.name, d.unit, d.accountant, d.epsilon, d.delta, s.epsilon, r.epsilon, least(o.epsilon, s.epsilon), s.used, dp._is_frozen(d.name),
         -- from the ledger, not from what is registered now: what was shown once cannot be taken back (composition.md 11)
         (SELECT array_agg(DISTINCT l.charge -> 0 ->> 'synthetic') FROM dp.ledger l WHERE l.kind = 'declassified'
            AND (l.dataset = d.name OR EXISTS (SELECT FROM dp.protection h WHERE h.dataset = d.name AND h.relation_key = l.charge -> 0 ->> 'relation'))),
         r.per, (SELECT p.ends FROM dp._period(r.since, r.per, now()) p),
         (SELECT count(*) FROM dp.entitlement e WHERE e.dataset = d.name),
         (SELECT count(DISTINCT COALESCE(l.request ->> 'life', l.request_id::text)) FROM dp.ledger l WHERE l.dataset = d.name AND l.kind = 'failure'),
         d.strict
  FROM dp.dataset d
  CROSS JOIN LATERAL dp._budget_left(d.name, NULL) s
  LEFT JOIN dp.role_allotment r ON r.dataset = d.name AND r.role = dp._who()
  LEFT JOIN LATERAL dp._budget_left(d.name, r.role) o ON r.role IS NOT NULL
  WHERE r.role IS NOT NULL OR pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._budget() IS 'Rows of dp.budget for who asks.';
REVOKE ALL ON FUNCTION dp._budget() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._budget() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.budget AS SELECT * FROM dp._budget();
COMMENT ON VIEW dp.budget IS 'Your datasets: cap, your allotment, and what is left. epsilon_left: the largest epsilon of one more question (of its most spent partition, and for a renyi accountant of one more Laplace charge). relative_to: declassified tables, for ever; what they show of a row is not in the guarantee. your_period: your allotment renews after each, next at your_period_ends; NULL: it is for life. owed: charges whose answer was not drawn; the same question draws it for nothing. failures: unforeseen failures, for ever; each may have told something about a row. strict: questions about units through which a relation is not protected are refused.';
GRANT SELECT ON dp.budget TO dp_analyst, dp_gateway, dp_admin;
