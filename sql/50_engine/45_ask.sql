CREATE FUNCTION dp._ask(id uuid, who name, request jsonb, witness jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb := dp._channel_ask(format('CALL dp._charge_and_answer(%L, %L, %L, %L)', id, who, request, witness), id);
  owed uuid := (reply ->> 'owed')::uuid;
BEGIN
  IF owed IS NOT NULL THEN
    RETURN dp._channel_ask(format('SELECT dp._answer(%L, %L, %L)', owed, who, request), owed);
  END IF;
  RETURN reply;
END $$;
COMMENT ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) IS 'One request over the channel: the charge and its answer, two transactions in one trip; or what an earlier charge still owes. witness: as of dp._charge.';
REVOKE ALL ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) FROM PUBLIC;
