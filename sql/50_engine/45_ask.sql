CREATE FUNCTION dp._end_here(id uuid, who name, request jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- waits until the step that was cancelled is undone
  PERFORM dp._channel_ask(format('SELECT dp._answer(%L, %L, %L, true)', id, who, request), id);
EXCEPTION WHEN OTHERS THEN
  NULL;  -- what is drawn stays, and whoever asks the same goes on from there; so where another one has paid
END $$;
COMMENT ON FUNCTION dp._end_here(uuid, name, jsonb) IS 'Has the steps of a release that are drawn released, and the rest of the charge given back. Only a cancel is an error.';
REVOKE ALL ON FUNCTION dp._end_here(uuid, name, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._go_on(id uuid, who name, request jsonb, reply jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head  jsonb := reply -> 'chain';
  tells boolean := session_user = 'dp_gateway'
                   OR COALESCE(NULLIF(current_setting('dp.notices', true), '')::boolean, current_setting('application_name') = 'psql');
  told  timestamptz := clock_timestamp();
  ended boolean := false;
  words text;
BEGIN
  BEGIN
    WHILE reply ? 'more' LOOP
      IF tells AND clock_timestamp() > told + interval '1 s' THEN
        RAISE NOTICE USING ERRCODE = 'DP000', MESSAGE = reply #>> '{more,text}';
        told := clock_timestamp();
      END IF;
      reply := dp._channel_ask(format('SELECT dp._answer(%L, %L, %L)', id, who, request), id);
    END LOOP;
    RETURN CASE WHEN head IS NULL OR reply ? 'chain' THEN reply ELSE reply || jsonb_build_object('chain', head) END;
  EXCEPTION WHEN query_canceled THEN
    GET STACKED DIAGNOSTICS words = MESSAGE_TEXT;
  END;
  PERFORM dp._end_here(id, who, request);
  ended := true;
  RAISE EXCEPTION USING ERRCODE = '57014', MESSAGE = words;
EXCEPTION WHEN query_canceled THEN
  -- a cancel is two signals (dp._channel_abandon): the second one may have ended what the first one has begun
  IF NOT ended THEN
    PERFORM dp._end_here(id, who, request);
  END IF;
  RAISE;
END $$;
COMMENT ON FUNCTION dp._go_on(uuid, name, jsonb, jsonb) IS 'The steps of a release after the first, one trip over the channel and one commit each, with a NOTICE a second. Cancelled, it has what was drawn released, and the rest of the charge given back. who and request: as of dp._answer. reply: to the first step.';
REVOKE ALL ON FUNCTION dp._go_on(uuid, name, jsonb, jsonb) FROM PUBLIC;
CREATE FUNCTION dp._ask(id uuid, who name, request jsonb, witness jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb := dp._channel_ask(format('CALL dp._charge_and_answer(%L, %L, %L, %L)', id, who, request, witness), id);
  owed uuid := (reply ->> 'owed')::uuid;
BEGIN
  IF owed IS NOT NULL THEN
    reply := dp._channel_ask(format('SELECT dp._answer(%L, %L, %L)', owed, who, request), owed);
  END IF;
  IF reply ? 'more' THEN
    RETURN dp._go_on(COALESCE(owed, id), CASE WHEN owed IS NOT NULL THEN who END, CASE WHEN owed IS NOT NULL THEN request END, reply);
  END IF;
  RETURN reply;
END $$;
COMMENT ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) IS 'One request over the channel: the charge and its answer, two transactions in one trip; or what an earlier charge still owes; of a release in steps, step by step. witness: as of dp._charge.';
REVOKE ALL ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) FROM PUBLIC;
