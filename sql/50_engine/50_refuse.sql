CREATE FUNCTION dp._refuse(refusal jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF refusal ->> 'detail' IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = refusal ->> 'sqlstate', MESSAGE = refusal ->> 'message', HINT = refusal ->> 'hint';
  END IF;
  RAISE EXCEPTION USING ERRCODE = refusal ->> 'sqlstate', MESSAGE = refusal ->> 'message', DETAIL = refusal ->> 'detail', HINT = refusal ->> 'hint';
END $$;
COMMENT ON FUNCTION dp._refuse(jsonb) IS 'Raises what the engine refused: a function of public data and released values only.';
REVOKE ALL ON FUNCTION dp._refuse(jsonb) FROM PUBLIC;
