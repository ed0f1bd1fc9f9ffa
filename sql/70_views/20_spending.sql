CREATE FUNCTION dp._spending() RETURNS TABLE (at timestamptz, request_id uuid, who name, dataset text, kind text, call text, mechanism text, charge jsonb, accounts text, question text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.at, l.request_id, CASE WHEN own.yes THEN l.who END, l.dataset, l.kind, CASE WHEN own.yes THEN l.call END, l.mechanism, l.charge,
         CASE WHEN own.yes THEN CASE l.scope ->> 'node' WHEN 'leaf' THEN 'partitions of ' || (l.scope ->> 'relation') WHEN 'relation' THEN 'relation ' || (l.scope ->> 'relation') ELSE 'root' END END,
         CASE WHEN own.yes THEN CASE WHEN l.kind = 'return' THEN 'back from ' || (l.request ->> 'of') WHEN l.request ? 'query' THEN l.request ->> 'query'
           ELSE format('%s keys %s where %s', l.request -> 'from' ->> 'name', l.request -> 'keys', COALESCE(l.request ->> 'where', 'true')) END END
  FROM dp.ledger l CROSS JOIN LATERAL (SELECT l.who = dp._who() AS yes) own
  WHERE EXISTS (SELECT FROM dp.role_allotment r WHERE r.dataset = l.dataset AND r.role = dp._who()) OR pg_has_role(session_user, 'dp_admin', 'MEMBER')
$$;
COMMENT ON FUNCTION dp._spending() IS 'Rows of dp.spending for who asks.';
REVOKE ALL ON FUNCTION dp._spending() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._spending() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.spending AS SELECT * FROM dp._spending();
COMMENT ON VIEW dp.spending IS 'The ledger as you may see it: your own calls in full; of others mechanism, charge, time and an opaque request id (a literal in a question can be a secret). kind return: what was reserved for a fallback and not needed, given back.';
GRANT SELECT ON dp.spending TO dp_analyst, dp_gateway, dp_admin;
