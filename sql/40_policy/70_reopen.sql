CREATE FUNCTION dp._require_dataset(dataset text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- also waits for a failure that is being counted
  PERFORM FROM dp.dataset d WHERE d.name = dataset FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'SELECT dataset FROM dp.budget';
  END IF;
END $$;
COMMENT ON FUNCTION dp._require_dataset(text) IS 'Refuses the name of no dataset; locks it against another freeze, reopening or failure.';
REVOKE ALL ON FUNCTION dp._require_dataset(text) FROM PUBLIC;

CREATE PROCEDURE dp.freeze(dataset text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_admin('dp.freeze');
  PERFORM dp._require_dataset(dataset);
  INSERT INTO dp.freeze (dataset, reason, detail) VALUES (dataset, 'owner', jsonb_build_object('by', session_user)) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L is frozen already', dataset), HINT = format('CALL dp.reopen(%L) ends it.', dataset);
  END IF;
  PERFORM dp._void_entitlements(dataset);
  PERFORM dp._chain(ARRAY[dp._ledger_note(dataset, session_user, 'freeze', 'dp.freeze', NULL)]);
END $$;
COMMENT ON PROCEDURE dp.freeze(text) IS 'Stops a dataset at once: nothing is charged or drawn any more, and what was charged and not yet answered is owed no longer. Answers that were stored stay readable. CALL dp.reopen(dataset) ends it.';
REVOKE ALL ON PROCEDURE dp.freeze(text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.freeze(text) TO dp_admin;

CREATE PROCEDURE dp.reopen(dataset text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  freezes bigint;
  roles bigint;
BEGIN
  PERFORM dp._require_admin('dp.reopen');
  PERFORM dp._require_dataset(dataset);
  DELETE FROM dp.freeze f WHERE f.dataset = dataset AND f.reason IN ('failures', 'owner');
  GET DIAGNOSTICS freezes = ROW_COUNT;
  IF freezes > 0 THEN
    -- of charges that were under way when it was frozen, and committed after it
    PERFORM dp._void_entitlements(dataset);
  END IF;
  DELETE FROM dp.closed_allotment a WHERE a.dataset = dataset;
  GET DIAGNOSTICS roles = ROW_COUNT;
  IF freezes = 0 AND roles = 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('nothing of dataset %L was closed by failures or by dp.freeze', dataset),
      HINT = CASE WHEN dp._is_frozen(dataset) THEN format('This ledger may lack charges: CALL dp.confirm_ledger(%L, add_epsilon => what was spent since the copy).', dataset)
                  ELSE 'SELECT * FROM dp.check() lists what is closed; one question: CALL dp.reopen_question(request).' END;
  END IF;
  PERFORM dp._chain(ARRAY[dp._ledger_note(dataset, session_user, 'reopen', 'dp.reopen', NULL)]);
END $$;
COMMENT ON PROCEDURE dp.reopen(text) IS 'Ends a freeze by failures or by dp.freeze, and opens the allotments that failures closed. First find the causes in the server''s log: each reopening allows four more failures, and each may tell something about a row. Does not end a freeze of a restored or cloned ledger: CALL dp.confirm_ledger.';
REVOKE ALL ON PROCEDURE dp.reopen(text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.reopen(text) TO dp_admin;

CREATE PROCEDURE dp.reopen_question(request uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  closed dp.closed_question;
BEGIN
  PERFORM dp._require_admin('dp.reopen_question');
  DELETE FROM dp.closed_question c WHERE request IN (c.request_id, c.of_request) RETURNING * INTO closed;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'no question was closed by a failure of this request', HINT = 'SELECT * FROM dp.check() lists closed questions and what to type.';
  END IF;
  PERFORM dp._chain(ARRAY[dp._ledger_note(closed.dataset, session_user, 'reopen', 'dp.reopen_question', jsonb_build_object('of', closed.request_id))]);
END $$;
COMMENT ON PROCEDURE dp.reopen_question(uuid) IS 'Opens one question again that a failure closed; its failure stays counted. First find the cause in the server''s log: if it fails again, that may tell something about a row.';
REVOKE ALL ON PROCEDURE dp.reopen_question(uuid) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.reopen_question(uuid) TO dp_admin;
