CREATE PROCEDURE dp.drop_family(dataset text, name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_admin('dp.drop_family');
  DELETE FROM dp.family f WHERE f.dataset = drop_family.dataset AND f.name = drop_family.name;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('there is no family %L in dataset %L', name, dataset), HINT = 'SELECT dataset, name FROM dp.families';
  END IF;
END $$;
COMMENT ON PROCEDURE dp.drop_family(text, text) IS 'Frees the name of a family of dp_release_numeric: no question is answered from it any more. What it cost stays spent, and its release is found again by the same call.';
REVOKE ALL ON PROCEDURE dp.drop_family(text, text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.drop_family(text, text) TO dp_admin;
