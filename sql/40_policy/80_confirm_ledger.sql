CREATE PROCEDURE dp.confirm_ledger(dataset text, add_epsilon numeric DEFAULT NULL, add_delta numeric DEFAULT 0, add_curve numeric[] DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  d dp.dataset;
  curve numeric[];
BEGIN
  PERFORM dp._require_admin('dp.confirm_ledger');
  SELECT * INTO d FROM dp.dataset x WHERE x.name = confirm_ledger.dataset;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'SELECT dataset FROM dp.budget';
  END IF;
  IF NOT dp._frozen(d.incarnation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L is not frozen', dataset), HINT = 'Nothing to confirm.';
  END IF;
  IF (add_epsilon IS NULL AND add_curve IS NULL) OR add_delta IS NULL OR EXISTS (SELECT FROM unnest(add_curve) v WHERE v IS NULL)
     OR EXISTS (SELECT FROM unnest(add_curve || add_epsilon || add_delta) v WHERE v < 0 OR v > 1000000 OR scale(trim_scale(v)) > 18) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'say how much may have been spent since this copy was made: add_epsilon, or add_curve on a renyi dataset',
      HINT = '0 only if the original is gone and nothing was answered after the dump. For a clone beside a living original: the whole cap, less the share that this copy may use.';
  END IF;
  IF (d.accountant = 'pure' AND add_curve IS NOT NULL) OR cardinality(add_curve) <> cardinality(d.orders) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'add_curve has one value per order of a renyi dataset', HINT = CASE d.accountant WHEN 'pure' THEN 'Give add_epsilon: the accountant of this dataset is pure.' ELSE format('One for each of the orders %s.', d.orders) END;
  END IF;
  UPDATE dp.incarnation SET id = gen_random_uuid(), system_identifier = s.system_identifier, timeline = c.timeline_id, database_oid = b.oid
  FROM pg_control_system() s, pg_control_checkpoint() c, pg_database b
  WHERE b.datname = current_database() AND dp._frozen(incarnation.id);
  IF d.accountant = 'renyi' THEN
    SELECT array_agg(COALESCE(add_curve[i], 0) + COALESCE(add_epsilon, 0) ORDER BY i) INTO curve FROM generate_subscripts(d.orders, 1) i;
  END IF;
  INSERT INTO dp.account AS a (dataset, node, spent_epsilon, spent_delta, spent_rdp)
  VALUES (dataset, 'root', CASE d.accountant WHEN 'pure' THEN add_epsilon ELSE 0 END, add_delta, curve)
  ON CONFLICT ON CONSTRAINT account_pkey DO UPDATE SET spent_epsilon = a.spent_epsilon + EXCLUDED.spent_epsilon, spent_delta = a.spent_delta + EXCLUDED.spent_delta,
    spent_rdp = (SELECT array_agg(COALESCE(o, 0) + n ORDER BY i) FROM unnest(a.spent_rdp, EXCLUDED.spent_rdp) WITH ORDINALITY u(o, n, i));
  INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope, policy_version)
  SELECT gen_random_uuid(), session_user, dataset, 'confirm', 'dp.confirm_ledger', 'confirm', jsonb_build_array(jsonb_build_object('kind', 'confirm', 'epsilon', add_epsilon::text, 'delta', add_delta::text)),
         CASE d.accountant WHEN 'pure' THEN add_epsilon ELSE 0 END, add_delta, curve, '{"node": "root"}', version FROM dp.policy_state;
  -- a restored table has lost the gaps of dropped columns: names hold, numbers moved. Two steps, since numbers may swap
  UPDATE dp.column_policy cp SET attnum = -a.attnum FROM pg_attribute a, dp.relation_policy p
  WHERE p.dataset = confirm_ledger.dataset AND cp.relation = p.relation AND a.attrelid = cp.relation AND a.attname = cp.attname AND NOT a.attisdropped AND a.attnum <> cp.attnum;
  UPDATE dp.column_policy cp SET attnum = -cp.attnum WHERE cp.attnum < 0;
  UPDATE dp.dataset x SET incarnation = i.id FROM dp.incarnation i WHERE x.name = confirm_ledger.dataset;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) IS
  'Unfreezes a restored or cloned dataset after adding what may have been spent elsewhere since the copy (composition.md 12). A pure epsilon added to a renyi dataset counts as that epsilon at every order.';
REVOKE ALL ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) TO dp_admin;
