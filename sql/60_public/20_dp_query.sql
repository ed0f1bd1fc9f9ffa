CREATE FUNCTION dp.dp_query(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET client_min_messages = notice
SET debug_print_plan = off SET debug_print_parse = off SET debug_print_rewritten = off SET trace_sort = off AS $$
DECLARE
  who name := dp._who();
  id uuid := gen_random_uuid();
  reply jsonb;
  -- believed of the gateway alone, as dp.analyst is: anybody can set a setting
  witness jsonb := CASE WHEN session_user = 'dp_gateway' THEN NULLIF(current_setting('dp.witness', true), '') END;
  notices text := lower(NULLIF(current_setting('dp.notices', true), ''));
BEGIN
  IF who IS NULL OR who = 'dp_planner' THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'nobody is asking', HINT = 'The gateway names the analyst in dp.analyst, inside the transaction.';
  END IF;
  IF request IS NULL OR jsonb_typeof(request) <> 'object' OR octet_length(request::text) > 1048576 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP003', MESSAGE = 'a request is a jsonb object of at most 1 MB', HINT = 'Use dp_count, dp_group_by, or plain SQL through the proxy.';
  END IF;
  IF notices NOT IN ('on', 'off', 'true', 'false', 'yes', 'no', '1', '0') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'dp.notices must be on or off', HINT = 'SET dp.notices = on';
  END IF;
  reply := dp._ask(id, who, request, witness);
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  IF request #> '{release,publish}' = 'true' THEN
    reply := dp._and_published(reply, who, request -> 'release');
  END IF;
  IF session_user <> 'dp_gateway' AND COALESCE(notices::boolean, current_setting('application_name') = 'psql') THEN
    RAISE NOTICE '%', reply #>> '{answer,notice,text}';
  END IF;
  IF session_user = 'dp_gateway' THEN
    -- its sessions are everybody's: it keeps what was the last answer of each client's
    RETURN (reply -> 'answer') || jsonb_build_object('last', dp._last_answer_of(reply -> 'answer', who))
      || CASE WHEN reply ? 'chain' THEN jsonb_build_object('chain', reply -> 'chain') ELSE '{}' END;
  END IF;
  PERFORM set_config('dp.last_answer', dp._last_answer_of(reply -> 'answer', who)::text, false);
  IF (reply #>> '{answer,keys}')::int > 0 THEN
    PERFORM set_config('dp.last_release', COALESCE(reply #>> '{answer,release}', reply #>> '{answer,request_id}'), false);
  END IF;
  RETURN reply -> 'answer';
END $$;
COMMENT ON FUNCTION dp.dp_query(jsonb) IS 'Answers one request (docs/internals.md §1): who asks, then the channel: charge, committed; read, compute and record, committed. Charges stay whatever the caller''s transaction does.';
REVOKE ALL ON FUNCTION dp.dp_query(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.dp_query(jsonb) TO dp_analyst, dp_gateway;
