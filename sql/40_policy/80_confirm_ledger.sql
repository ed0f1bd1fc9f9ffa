CREATE FUNCTION dp._open_epoch(of_dataset text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  h dp.chain_head;
  named jsonb := COALESCE((SELECT f.detail -> 'heads' FROM dp.freeze f WHERE f.dataset = of_dataset AND f.reason = 'witness'), '{}');
BEGIN
  INSERT INTO dp.chain_head (dataset, hash)
  SELECT d.name, sha256(convert_to(format('["pg_epsilon chain 1","%s"]', d.id), 'UTF8')) FROM dp.dataset d WHERE d.name = of_dataset
  ON CONFLICT DO NOTHING;
  SELECT * INTO h FROM dp.chain_head c WHERE c.dataset = of_dataset FOR UPDATE;
  -- all heads up to the highest number that a witness named, of each epoch; of this one at least what the chain holds
  UPDATE dp.chain_head c SET epoch = 1 + greatest(h.epoch, (SELECT max(e.k::integer) FROM jsonb_object_keys(named) e(k))),
    settled = (SELECT jsonb_object_agg(u.k, u.n) FROM (
      SELECT e.key AS k, max(e.value::text::bigint) AS n FROM (
        SELECT * FROM jsonb_each(named) UNION ALL SELECT * FROM jsonb_each(h.settled) UNION ALL SELECT h.epoch::text, to_jsonb(h.number)) e GROUP BY e.key) u)
  WHERE c.dataset = of_dataset RETURNING * INTO h;
  RETURN jsonb_build_object('epoch', h.epoch, 'settled', h.settled);
END $$;
COMMENT ON FUNCTION dp._open_epoch(text) IS 'A new epoch of the chain, at a confirmation: every head of an older epoch, up to the highest number that a witness named, is settled and takes the new head; one above it freezes again.';
REVOKE ALL ON FUNCTION dp._open_epoch(text) FROM PUBLIC;

CREATE FUNCTION dp._confirm_ledger(dataset text, add_epsilon numeric, add_delta numeric, add_curve numeric[]) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  d dp.dataset;
  curve numeric[];
  entered uuid;
BEGIN
  SELECT * INTO d FROM dp.dataset x WHERE x.name = _confirm_ledger.dataset;
  IF (add_epsilon IS NULL AND add_curve IS NULL) OR add_delta IS NULL OR EXISTS (SELECT FROM unnest(add_curve) v WHERE v IS NULL)
     OR EXISTS (SELECT FROM unnest(add_curve || add_epsilon || add_delta) v WHERE v < 0 OR v > 1000000 OR scale(trim_scale(v)) > 18) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'say how much may have been spent since this copy was made: add_epsilon, or add_curve on a renyi dataset',
      HINT = COALESCE((SELECT format('A witness saw what this ledger lacks: CALL dp.confirm_ledger(%L, %s)', f.dataset, f.detail ->> 'add') FROM dp.freeze f WHERE f.dataset = _confirm_ledger.dataset AND f.reason = 'witness') || '. ', '') || '0 only if the original is gone and nothing was answered after the dump. For a clone beside a living original: the whole cap, less the share that this copy may use.';
  END IF;
  IF (d.accountant = 'pure' AND add_curve IS NOT NULL) OR cardinality(add_curve) <> cardinality(d.orders) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'add_curve has one value per order of a renyi dataset', HINT = CASE d.accountant WHEN 'pure' THEN 'Give add_epsilon: the accountant of this dataset is pure.' ELSE format('One for each of the orders %s.', d.orders) END;
  END IF;
  -- what a copy confirmed here before is another place: a new id, so that only what is confirmed from now on belongs to it
  UPDATE dp.incarnation i SET id = gen_random_uuid(), system_identifier = p.system_identifier, timeline = p.timeline, database_oid = p.database_oid, inode = p.inode, ctime = p.ctime
  FROM dp._place() p WHERE dp._elsewhere(i.id) IS NOT NULL;
  IF add_delta = 0 AND COALESCE(add_epsilon, 0) = 0 AND 0 >= ALL (COALESCE(add_curve, '{}')) THEN
    -- nothing was asked elsewhere: the paid epochs go on. Otherwise another server may have used them up, and they count as closed
    UPDATE dp.turbo_sv s SET incarnation = i.id FROM dp.incarnation i, dp.turbo_view v, dp.relation_policy p
    WHERE s.view = v.view AND p.relation = v.relation AND p.dataset = _confirm_ledger.dataset AND s.incarnation = d.incarnation;
  ELSE
    -- in words, because a copy that only a witness saw is where the original was, and has its incarnation
    UPDATE dp.turbo_sv s SET threshold = NULL FROM dp.turbo_view v, dp.relation_policy p
    WHERE s.view = v.view AND p.relation = v.relation AND p.dataset = _confirm_ledger.dataset AND s.threshold IS NOT NULL;
    DELETE FROM dp.turbo_note n USING dp.turbo_view v, dp.relation_policy p
    WHERE n.view = v.view AND p.relation = v.relation AND p.dataset = _confirm_ledger.dataset AND n.name = 'load';
  END IF;
  IF d.accountant = 'renyi' THEN
    SELECT array_agg(COALESCE(add_curve[i], 0) + COALESCE(add_epsilon, 0) ORDER BY i) INTO curve FROM generate_subscripts(d.orders, 1) i;
  END IF;
  INSERT INTO dp.account AS a (dataset, period, node, spent_epsilon, spent_delta, spent_rdp)
  VALUES (dataset, '-infinity', 'root', CASE d.accountant WHEN 'pure' THEN add_epsilon ELSE 0 END, add_delta, curve)
  ON CONFLICT ON CONSTRAINT account_pkey DO UPDATE SET spent_epsilon = a.spent_epsilon + EXCLUDED.spent_epsilon, spent_delta = a.spent_delta + EXCLUDED.spent_delta,
    spent_rdp = (SELECT array_agg(COALESCE(o, 0) + n ORDER BY i) FROM unnest(a.spent_rdp, EXCLUDED.spent_rdp) WITH ORDINALITY u(o, n, i));
  INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope, policy_version)
  SELECT gen_random_uuid(), session_user, dataset, 'confirm', 'dp.confirm_ledger', 'confirm', jsonb_build_array(jsonb_build_object('kind', 'confirm', 'epsilon', add_epsilon::text, 'delta', add_delta::text) || dp._open_epoch(dataset)),
         CASE d.accountant WHEN 'pure' THEN add_epsilon ELSE 0 END, add_delta, curve, '{"node": "root"}', version FROM dp.policy_state
  RETURNING request_id INTO entered;
  -- a restored table has lost the gaps of dropped columns: names hold, numbers moved. Two steps, since numbers may swap
  UPDATE dp.column_policy cp SET attnum = -a.attnum FROM pg_attribute a, dp.relation_policy p
  WHERE p.dataset = _confirm_ledger.dataset AND cp.relation = p.relation AND a.attrelid = cp.relation AND a.attname = cp.attname AND NOT a.attisdropped AND a.attnum <> cp.attnum;
  UPDATE dp.column_policy cp SET attnum = -cp.attnum WHERE cp.attnum < 0;
  UPDATE dp.dataset x SET incarnation = i.id FROM dp.incarnation i WHERE x.name = _confirm_ledger.dataset;
  DELETE FROM dp.freeze f WHERE f.dataset = _confirm_ledger.dataset AND f.reason IN ('incarnation', 'witness');
  PERFORM dp._void_entitlements(dataset);
  RETURN entered;
END $$;
COMMENT ON FUNCTION dp._confirm_ledger(text, numeric, numeric, numeric[]) IS 'Confirms one dataset: adds to its root account, writes the ledger row, whose request_id it returns, and remembers where the ledger is from now on.';
REVOKE ALL ON FUNCTION dp._confirm_ledger(text, numeric, numeric, numeric[]) FROM PUBLIC;

CREATE PROCEDURE dp.confirm_ledger(dataset text, add_epsilon numeric DEFAULT NULL, add_delta numeric DEFAULT 0, add_curve numeric[] DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  frozen text[];
  item text;
  entered uuid[];
BEGIN
  PERFORM dp._require_admin('dp.confirm_ledger');
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'this server is in recovery: there is nothing to confirm yet', HINT = 'Promote it first; its accounts are frozen from that moment until they are confirmed.';
  END IF;
  IF dataset IS DISTINCT FROM 'all' AND NOT EXISTS (SELECT FROM dp.dataset x WHERE x.name = confirm_ledger.dataset) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'SELECT dataset FROM dp.budget, or ''all'' for every frozen one.';
  END IF;
  -- all of them before the first is confirmed: that moves the incarnation which the others are compared with
  SELECT array_agg(x.name ORDER BY x.name) INTO frozen FROM dp.dataset x
  WHERE confirm_ledger.dataset IN ('all', x.name) AND EXISTS (SELECT FROM dp._freeze_reasons(x.name) f WHERE f.reason IN ('incarnation', 'witness'));
  IF frozen IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = CASE dataset WHEN 'all' THEN 'no dataset is frozen by a copy' ELSE format('dataset %L is not frozen by a copy', dataset) END, HINT = 'Nothing to confirm. What failures or its owner froze is opened by CALL dp.reopen(dataset).';
  END IF;
  FOREACH item IN ARRAY frozen LOOP
    entered := entered || dp._confirm_ledger(item, add_epsilon, add_delta, add_curve);
  END LOOP;
  PERFORM dp._bump_policy();
  PERFORM dp._chain(entered);
END $$;
COMMENT ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) IS
  'Unfreezes a dataset whose ledger was restored, copied or promoted, or all of them (dataset ''all''), after adding to each what the original may have spent that this copy lacks (composition.md 12). 0 says that nothing was asked elsewhere. A pure epsilon added to a renyi dataset counts as that epsilon at every order.';
REVOKE ALL ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.confirm_ledger(text, numeric, numeric, numeric[]) TO dp_admin;
