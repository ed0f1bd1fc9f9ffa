CREATE FUNCTION dp._carry_spending(relation_key text, dataset text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  new_set dp.dataset;
  old_set dp.dataset;
  s record;
  nodes numeric[];
  entered uuid;
BEGIN
  SELECT * INTO new_set FROM dp.dataset d WHERE d.name = _carry_spending.dataset;
  FOR old_set IN
    SELECT d.* FROM dp.dataset d
    WHERE d.name <> _carry_spending.dataset
      AND d.name IN (SELECT h.dataset FROM dp.protection h WHERE h.relation_key = _carry_spending.relation_key AND h.carried_to IS DISTINCT FROM _carry_spending.dataset)
  LOOP
    IF old_set.accountant <> new_set.accountant OR old_set.orders IS DISTINCT FROM new_set.orders
       OR new_set.epsilon < old_set.epsilon OR new_set.delta_rdp < old_set.delta_rdp OR new_set.delta_add < old_set.delta_add OR old_set.unit <> new_set.unit THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s was protected in dataset %L and can only move to a wider one of the same unit, accountant and orders', relation_key, old_set.name),
        HINT = 'Protect it in its old dataset again, or make a dataset with at least the same cap (composition.md 3.7).';
    END IF;
    IF dp._is_frozen(old_set.name) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = format('%s was protected in dataset %L, which is frozen', relation_key, old_set.name),
        HINT = format('What it spent may not be known here. SELECT * FROM dp.check() says why and what to type; then protect it in %L.', new_set.name);
    END IF;
    SELECT COALESCE(max(t.e), 0) AS e, COALESCE(max(t.d), 0) AS d INTO s FROM (
      SELECT r.spent_epsilon + COALESCE(n.spent_epsilon, 0) + COALESCE(l.spent_epsilon, 0) AS e,
             r.spent_delta + COALESCE(n.spent_delta, 0) + COALESCE(l.spent_delta, 0) AS d
      FROM dp.account r
      LEFT JOIN dp.account n ON n.dataset = r.dataset AND n.role = '' AND n.node = 'relation' AND n.relation_key = _carry_spending.relation_key
      LEFT JOIN dp.account l ON l.dataset = r.dataset AND l.role = '' AND l.node = 'leaf' AND l.relation_key = _carry_spending.relation_key
      WHERE r.dataset = old_set.name AND r.role = '' AND r.node = 'root') t;
    SELECT array_agg(v ORDER BY i) INTO nodes FROM (
      SELECT i, COALESCE((SELECT a.spent_rdp[i] FROM dp.account a WHERE a.dataset = old_set.name AND a.role = '' AND a.node = 'root'), 0)
              + COALESCE((SELECT a.spent_rdp[i] FROM dp.account a WHERE a.dataset = old_set.name AND a.role = '' AND a.node = 'relation' AND a.relation_key = _carry_spending.relation_key), 0)
              + COALESCE((SELECT max(a.spent_rdp[i]) FROM dp.account a WHERE a.dataset = old_set.name AND a.role = '' AND a.node = 'leaf' AND a.relation_key = _carry_spending.relation_key), 0) AS v
      FROM generate_series(1, COALESCE(cardinality(old_set.orders), 0)) i) x;
    INSERT INTO dp.account AS a (dataset, period, node, spent_epsilon, spent_delta, spent_rdp) VALUES (new_set.name, '-infinity', 'root', s.e, s.d, nodes)
    ON CONFLICT ON CONSTRAINT account_pkey DO UPDATE SET spent_epsilon = a.spent_epsilon + EXCLUDED.spent_epsilon, spent_delta = a.spent_delta + EXCLUDED.spent_delta,
      spent_rdp = (SELECT array_agg(COALESCE(o, 0) + n ORDER BY i) FROM unnest(a.spent_rdp, EXCLUDED.spent_rdp) WITH ORDINALITY u(o, n, i));
    INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope, policy_version)
    SELECT gen_random_uuid(), session_user, new_set.name, 'transfer', 'dp.protect', 'transfer', jsonb_build_array(jsonb_build_object('kind', 'transfer', 'from', old_set.name)),
           s.e, s.d, nodes, '{"node": "root"}', version FROM dp.policy_state
    RETURNING request_id INTO entered;
    PERFORM dp._chain(ARRAY[entered]);
    UPDATE dp.protection h SET carried_to = new_set.name WHERE h.relation_key = _carry_spending.relation_key AND h.dataset = old_set.name;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._carry_spending(text, text) IS 'When a relation moves to another dataset, what its rows have already paid comes along: root_new += old root + max over old leaves (composition.md 3.7).';
REVOKE ALL ON FUNCTION dp._carry_spending(text, text) FROM PUBLIC;
