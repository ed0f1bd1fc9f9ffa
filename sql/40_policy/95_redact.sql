CREATE PROCEDURE dp.redact(request_id uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  reply jsonb;
BEGIN
  PERFORM dp._require_admin('dp.redact');
  PERFORM dp._lock_root(asked.dataset)
    FROM (SELECT l.dataset FROM dp.ledger l WHERE l.request_id = redact.request_id
          UNION SELECT t.dataset FROM dp.told t WHERE t.request_id = redact.request_id) AS asked;
  reply := dp._ledger_reply('redact', jsonb_build_object('request_id', request_id, 'who', session_user));
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  RAISE NOTICE USING MESSAGE = format('the text of this question is gone from %s ledger rows; what it cost, and its link in the chain, stay', reply ->> 'value'),
    HINT = 'Backups, exports and the write-ahead log made before hold it still.';
END $$;
COMMENT ON PROCEDURE dp.redact(uuid) IS 'Takes the text of a question (a literal in it may be a secret) out of every ledger row that holds it, with the salt of its digest: nobody can guess it afterwards. Amounts, time and who asked stay, the chain still verifies, a ledger row of kind redact says who did it. The stored answer is no longer found: who asks again pays again. request_id: SELECT request_id, question FROM dp.spending.';
REVOKE ALL ON PROCEDURE dp.redact(uuid) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.redact(uuid) TO dp_admin;
