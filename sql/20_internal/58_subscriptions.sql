CREATE FUNCTION dp._subscriptions(relation regclass) RETURNS SETOF name
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT s.subname FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
  WHERE r.srrelid IN (SELECT relation::oid UNION SELECT t.relid FROM pg_partition_tree(relation) t)
$$;
COMMENT ON FUNCTION dp._subscriptions(regclass) IS 'Subscriptions that write a relation or a partition of it.';
REVOKE ALL ON FUNCTION dp._subscriptions(regclass) FROM PUBLIC;
