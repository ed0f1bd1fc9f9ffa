CREATE PROCEDURE dp.reopen_shape(shape text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_admin('dp.reopen_shape');
  DELETE FROM dp.closed_shape c WHERE c.shape = reopen_shape.shape;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'no such closed shape', HINT = 'SELECT * FROM dp.check() lists them.';
  END IF;
END $$;
COMMENT ON PROCEDURE dp.reopen_shape(text) IS 'Opens a call shape again that was closed by a failure next to rows. First find the cause in the server''s log: a repeated failure could tell something about a row.';
REVOKE ALL ON PROCEDURE dp.reopen_shape(text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.reopen_shape(text) TO dp_admin;
