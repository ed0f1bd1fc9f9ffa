CREATE FUNCTION dp._protected_kin(relation regclass) RETURNS SETOF regclass
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE up AS (
    SELECT i.inhparent AS oid FROM pg_inherits i WHERE i.inhrelid = relation
    UNION SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid
  ), down AS (
    SELECT i.inhrelid AS oid FROM pg_inherits i WHERE i.inhparent = relation
    UNION SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid
  )
  SELECT p.relation FROM dp.relation_policy p WHERE p.relation IN (SELECT up.oid FROM up UNION ALL SELECT down.oid FROM down)
$$;
COMMENT ON FUNCTION dp._protected_kin(regclass) IS 'Protected relations that hold rows of this one too: its ancestors and descendants by partitioning or inheritance. One row would be charged on two nodes of the tree, each with the whole cap.';
REVOKE ALL ON FUNCTION dp._protected_kin(regclass) FROM PUBLIC;
