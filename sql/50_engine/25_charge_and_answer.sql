-- Neither SECURITY DEFINER nor SET: PostgreSQL lets no such procedure end a transaction. Hence names in full.
CREATE PROCEDURE dp._charge_and_answer(request_id uuid, who text, request jsonb, witness jsonb, INOUT reply jsonb DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  head jsonb;
BEGIN
  reply := dp._charge(request_id, who, request, witness);
  IF pg_catalog.jsonb_exists(reply, 'charged') THEN
    COMMIT;
    -- the newest head of the chain that one of the two made
    head := pg_catalog.jsonb_extract_path(reply, 'chain');
    reply := dp._answer(request_id);
    IF head IS NOT NULL AND NOT pg_catalog.jsonb_exists(reply, 'chain') THEN
      reply := pg_catalog.jsonb_set(reply, '{chain}', head);
    END IF;
  END IF;
END $$;
COMMENT ON PROCEDURE dp._charge_and_answer(uuid, text, jsonb, jsonb, jsonb) IS 'Channel, both transactions in one trip: what dp._charge replies and, where that is a charge, once it is committed, what dp._answer replies. What another charge owes is a trip of its own.';
REVOKE ALL ON PROCEDURE dp._charge_and_answer(uuid, text, jsonb, jsonb, jsonb) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp._charge_and_answer(uuid, text, jsonb, jsonb, jsonb) TO dp_channel;
