CREATE FUNCTION dp._failures_since_reopen(of_dataset text) RETURNS TABLE (who name, event text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT l.who, COALESCE(l.request ->> 'life', l.request_id::text) FROM dp.ledger l
  WHERE l.dataset = of_dataset AND l.kind = 'failure'
    AND l.seq > (SELECT COALESCE(max(r.seq), 0) FROM dp.ledger r WHERE r.dataset = of_dataset AND r.kind = 'reopen' AND r.call = 'dp.reopen')
$$;
COMMENT ON FUNCTION dp._failures_since_reopen(text) IS 'The unforeseen failures of a dataset since it was last reopened, by role: all that one crash of the server cut off is one event.';
REVOKE ALL ON FUNCTION dp._failures_since_reopen(text) FROM PUBLIC;

CREATE FUNCTION dp._ledger_note(dataset text, who name, kind text, call text, request jsonb) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope, request, policy_version)
  SELECT gen_random_uuid(), who, dataset, kind, call, kind, '[]', 0, 0, '{"node": "root"}', request, s.version FROM dp.policy_state s
  RETURNING request_id
$$;
COMMENT ON FUNCTION dp._ledger_note(text, name, text, text, jsonb) IS 'Writes a ledger row that costs nothing: a failure, a freeze, a reopening. Returns its id.';
REVOKE ALL ON FUNCTION dp._ledger_note(text, name, text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._record_failure(dataset text, who name, question text, call text, of_request uuid, sqlstate text, place text, life uuid) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
#variable_conflict use_variable
DECLARE
  id uuid;
  frozen uuid[] := '{}';
  mine bigint;
  total bigint;
BEGIN
  -- one after another: else two second failures would each be counted as a first
  PERFORM FROM dp.dataset d WHERE d.name = dataset FOR NO KEY UPDATE;
  -- what was under way when it was frozen tells nothing more
  IF dp._is_frozen(dataset) THEN
    RETURN NULL;
  END IF;
  IF EXISTS (SELECT FROM dp.closed_question c WHERE c.question = question) THEN
    RETURN '{}';
  END IF;
  id := dp._ledger_note(dataset, who, 'failure', call, jsonb_strip_nulls(jsonb_build_object('of', of_request, 'sqlstate', sqlstate, 'place', place, 'life', life)));
  INSERT INTO dp.closed_question (question, request_id, of_request, dataset, who, sqlstate, place) VALUES (question, id, of_request, dataset, who, sqlstate, place);
  -- reopened, the question begins anew: what was cut off is counted by now
  UPDATE dp.entitlement e SET cut = 0, life = dp._life() WHERE e.request_id = of_request;
  SELECT count(DISTINCT f.event) FILTER (WHERE f.who = who), count(DISTINCT f.event) INTO mine, total FROM dp._failures_since_reopen(dataset) f;
  IF mine >= 2 THEN
    INSERT INTO dp.closed_allotment (dataset, role) VALUES (dataset, who) ON CONFLICT DO NOTHING;
  END IF;
  IF total >= 4 AND NOT EXISTS (SELECT FROM dp.freeze f WHERE f.dataset = dataset AND f.reason = 'failures') THEN
    INSERT INTO dp.freeze (dataset, reason, detail) VALUES (dataset, 'failures', jsonb_build_object('failures', total));
    frozen := ARRAY[dp._ledger_note(dataset, who, 'freeze', 'failures', NULL)];
    PERFORM dp._void_entitlements(dataset);
  END IF;
  RETURN id || frozen;
END $$;
COMMENT ON FUNCTION dp._record_failure(text, name, text, text, uuid, text, text, uuid) IS 'Closes a question after a failure that nobody foresaw, and counts it: the second of a role closes its allotment in the dataset, the fourth of the dataset freezes it (composition.md 10.3 d). A question that is closed already is not counted again. Nothing is recorded while the dataset is frozen: NULL. Returns the ids of the ledger rows, for the chain.';
REVOKE ALL ON FUNCTION dp._record_failure(text, name, text, text, uuid, text, text, uuid) FROM PUBLIC;
