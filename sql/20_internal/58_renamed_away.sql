CREATE FUNCTION dp._renamed_away() RETURNS TABLE (relation regclass, protected regclass)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.oid::regclass, p.relation FROM dp.relation_policy p
  JOIN pg_class o ON o.oid = p.relation JOIN pg_namespace m ON m.oid = o.relnamespace
  JOIN pg_class c ON c.relkind IN ('r', 'p') AND c.oid <> p.relation JOIN pg_namespace n ON n.oid = c.relnamespace AND format('%I.%I', n.nspname, c.relname) = p.relation_key
  WHERE format('%I.%I', m.nspname, o.relname) <> p.relation_key AND NOT EXISTS (SELECT FROM dp.relation_policy q WHERE q.relation = c.oid)
$$;
COMMENT ON FUNCTION dp._renamed_away() IS 'Tables that stand under the name by which another was protected, and are not protected: a swap by rename takes the protection along with the old table.';
REVOKE ALL ON FUNCTION dp._renamed_away() FROM PUBLIC;
