CREATE FUNCTION dp._paid_by(scope jsonb) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
  SELECT COALESCE((scope ->> 'period')::timestamptz, '-infinity')
$$;
COMMENT ON FUNCTION dp._paid_by(jsonb) IS 'The period of the allotment that a ledger row''s scope names, by its beginning; -infinity: an allotment for life.';
REVOKE ALL ON FUNCTION dp._paid_by(jsonb) FROM PUBLIC;

CREATE FUNCTION dp._account_return(dataset text, role name, period timestamptz) RETURNS TABLE (request_id uuid, node text, relation_key text, leaves text[], epsilon numeric, delta numeric, rdp numeric[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = on AS $$
  SELECT r.request_id, c.scope ->> 'node', COALESCE(c.scope ->> 'relation', ''),
         CASE c.scope ->> 'node' WHEN 'leaf' THEN ARRAY(SELECT jsonb_array_elements_text(c.scope -> 'leaves')) ELSE '{""}' END, r.epsilon, r.delta, r.rdp
  FROM (SELECT * FROM dp.ledger l WHERE l.kind = 'return' AND l.dataset = _account_return.dataset ORDER BY l.seq DESC LIMIT 1) r
  JOIN dp.ledger c ON c.request_id = (r.request ->> 'of')::uuid AND c.kind = 'charge' AND c.dataset = r.dataset AND c.who = r.who AND c.scope = r.scope AND c.seq < r.seq
  WHERE (_account_return.role = '' OR _account_return.role = r.who AND _account_return.period = dp._paid_by(r.scope)) AND EXISTS (SELECT FROM dp.release e WHERE e.request_id = c.request_id)
    AND (c.charge @> r.charge AND jsonb_array_length(c.charge) > jsonb_array_length(r.charge)
         -- of a release in steps that was stopped: a part of what its rounds would have cost
         OR jsonb_array_length(r.charge) = 1 AND r.charge #>> '{0,kind}' IN ('pure', 'rounds') AND EXISTS (SELECT FROM dp.draft d WHERE d.request_id = c.request_id)
            AND EXISTS (SELECT FROM jsonb_array_elements(c.charge) o WHERE o ->> 'kind' = CASE r.charge #>> '{0,kind}' WHEN 'pure' THEN 'advanced' ELSE 'rounds' END AND (o ->> 'epsilon')::numeric >= (r.charge #>> '{0,epsilon}')::numeric))
    AND -r.epsilon <= c.epsilon AND -r.delta <= c.delta AND COALESCE(cardinality(r.rdp), 0) = COALESCE(cardinality(c.rdp), 0)
    AND NOT EXISTS (SELECT FROM unnest(r.rdp, c.rdp) u(r, c) WHERE -u.r > u.c)
$$;
COMMENT ON FUNCTION dp._account_return(text, name, timestamptz) IS 'What the newest return of the ledger takes off this tree of accounts: charges of an answered one, or a part of the rounds of one in steps, of the same dataset, role, period and accounts, that leaves one charge at least.';
REVOKE ALL ON FUNCTION dp._account_return(text, name, timestamptz) FROM PUBLIC;

-- a plan made for one account would join ten thousand leaves by nested loops
CREATE FUNCTION dp._account_monotone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET jit = off AS $$
DECLARE
  tree record;
  back record;
  allowed boolean := true;
BEGIN
  -- one pass over both, because every charge waits for it: of nearly all, no tree lost a key or shrank
  FOR tree IN
    SELECT o.dataset, o.role, o.period, bool_and(n.dataset IS NOT NULL) AS stays
    FROM before o LEFT JOIN after n USING (dataset, role, period, node, relation_key, leaf_key)
    GROUP BY o.dataset, o.role, o.period
    HAVING bool_or(n.dataset IS NULL OR n.spent_epsilon < o.spent_epsilon OR n.spent_delta < o.spent_delta
       OR (o.spent_rdp IS NOT NULL AND (n.spent_rdp IS NULL OR cardinality(n.spent_rdp) <> cardinality(o.spent_rdp)
           OR EXISTS (SELECT FROM unnest(o.spent_rdp, n.spent_rdp) u(o, n) WHERE u.n < u.o))))
  LOOP
    allowed := tree.stays;
    -- all accounts of the return's scope and no other, each by what it gives back, and each tree once
    SELECT * INTO back FROM dp._account_return(tree.dataset, tree.role, tree.period) r
    WHERE NOT EXISTS (SELECT FROM dp.returned d WHERE d.request_id = r.request_id AND d.role = tree.role);
    allowed := allowed AND FOUND AND cardinality(back.leaves) = (SELECT count(*) FROM after n WHERE n.dataset = tree.dataset AND n.role = tree.role AND n.period = tree.period)
      AND cardinality(back.leaves) = (
        SELECT count(*) FROM before o JOIN after n USING (dataset, role, period, node, relation_key, leaf_key) JOIN unnest(back.leaves) l(leaf_key) USING (leaf_key)
        WHERE o.dataset = tree.dataset AND o.role = tree.role AND o.period = tree.period AND o.node = back.node AND o.relation_key = back.relation_key
          AND n.spent_epsilon = o.spent_epsilon + back.epsilon AND n.spent_delta = o.spent_delta + back.delta
          AND n.spent_rdp IS NOT DISTINCT FROM CASE WHEN back.rdp IS NULL THEN o.spent_rdp
              ELSE (SELECT array_agg(u.o + u.r ORDER BY u.i) FROM unnest(o.spent_rdp, back.rdp) WITH ORDINALITY u(o, r, i)) END);
    EXIT WHEN allowed IS NOT TRUE;
    INSERT INTO dp.returned (request_id, role) VALUES (back.request_id, tree.role);
  END LOOP;
  IF allowed IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'spent budget never decreases and never moves',
      HINT = 'Budgets are not reset. A larger need is a new dataset over other people''s data.';
  END IF;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION dp._account_monotone() IS 'Accounts only grow (composition.md 3.2), but for what a charge reserved and its released bit did not ask for (composition.md 4): the newest return of the ledger, exactly and once.';
REVOKE ALL ON FUNCTION dp._account_monotone() FROM PUBLIC;
CREATE TRIGGER monotone AFTER UPDATE ON dp.account REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION dp._account_monotone();
