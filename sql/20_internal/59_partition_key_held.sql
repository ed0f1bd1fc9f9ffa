CREATE FUNCTION dp._partition_key_held(relation regclass) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgname = '~dp_partition_key' AND t.tgenabled IN ('O', 'A'))
     AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_inherits i ON i.inhparent = c.oid WHERE c.oid = relation AND c.relkind = 'r')
$$;
COMMENT ON FUNCTION dp._partition_key_held(regclass) IS 'False when rows could be moved between leaf accounts: the trigger that forbids it is disabled, or inheritance children do not have it. The relation''s own account pays then (composition.md 5.2).';
REVOKE ALL ON FUNCTION dp._partition_key_held(regclass) FROM PUBLIC;
