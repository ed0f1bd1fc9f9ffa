CREATE FUNCTION dp._ask(id uuid, who name, request jsonb, witness jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reply jsonb := dp._channel_ask(format('SELECT dp._charge(%L, %L, %L, %L)', id, who, request, witness), id);
  owed uuid := (reply ->> 'owed')::uuid;
BEGIN
  IF owed IS NOT NULL THEN
    RETURN dp._channel_ask(format('SELECT dp._answer(%L, %L, %L)', owed, who, request), owed);
  END IF;
  IF reply ?| ARRAY['answer', 'refusal'] THEN
    RETURN reply;
  END IF;
  -- the newest head of the chain that one of the two made
  RETURN jsonb_strip_nulls(jsonb_build_object('chain', reply -> 'chain')) || dp._channel_ask(format('SELECT dp._answer(%L)', id), id);
END $$;
COMMENT ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) IS 'One request over the channel, in its two steps: the charge, or what an earlier charge still owes; then the answer. witness: as of dp._charge.';
REVOKE ALL ON FUNCTION dp._ask(uuid, name, jsonb, jsonb) FROM PUBLIC;
