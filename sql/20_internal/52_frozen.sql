CREATE FUNCTION dp._frozen(incarnation uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (
    SELECT FROM dp.incarnation i, pg_control_system() s, pg_control_checkpoint() c, pg_database d
    WHERE i.id = incarnation AND i.system_identifier = s.system_identifier AND i.timeline = c.timeline_id
      AND d.datname = current_database() AND i.database_oid = d.oid)
$$;
COMMENT ON FUNCTION dp._frozen(uuid) IS 'True when the dataset that remembers this incarnation was restored or cloned: its ledger may lack charges made elsewhere (composition.md 12).';
REVOKE ALL ON FUNCTION dp._frozen(uuid) FROM PUBLIC;
