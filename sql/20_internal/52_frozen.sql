CREATE FUNCTION dp._frozen(incarnation uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dp._elsewhere(incarnation) IS NOT NULL;
END $$;
COMMENT ON FUNCTION dp._frozen(uuid) IS 'True when the ledger of the dataset that remembers this incarnation was restored, copied or promoted: it may lack charges made elsewhere (composition.md 12).';
REVOKE ALL ON FUNCTION dp._frozen(uuid) FROM PUBLIC;
