CREATE FUNCTION dp._partition_value(relation regclass, value text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  kind oid := dp._partition_type(relation);
BEGIN
  IF kind IS NULL OR value IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s has no partitions, or the value is NULL', relation), HINT = 'dp.protect(..., partition_by => ..., grid => ...) declares them.';
  END IF;
  RETURN dp._as_type(value, kind, 'partition key');
END $$;
COMMENT ON FUNCTION dp._partition_value(regclass, text) IS 'A value of the partition key, in the canonical text of its type.';
REVOKE ALL ON FUNCTION dp._partition_value(regclass, text) FROM PUBLIC;
