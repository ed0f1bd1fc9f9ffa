CREATE FUNCTION dp._partition_key_immutable() RETURNS trigger
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- as the writer: to_jsonb runs casts of the table's owner, and needs no right of ours
  IF (to_jsonb(OLD) -> TG_ARGV[0]) IS DISTINCT FROM (to_jsonb(NEW) -> TG_ARGV[0]) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('column %I is the partition key of a protected relation and cannot be updated', TG_ARGV[0]),
      HINT = 'Delete the row and insert it anew: that makes it another privacy unit.';
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION dp._partition_key_immutable() IS 'A row may not move between partition accounts (composition.md 5.2).';
REVOKE ALL ON FUNCTION dp._partition_key_immutable() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._partition_key_immutable() TO dp_admin;
