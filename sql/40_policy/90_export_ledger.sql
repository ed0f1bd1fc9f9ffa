CREATE FUNCTION dp.export_ledger() RETURNS TABLE (kind text, content jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_admin('dp.export_ledger');
  INSERT INTO dp.ledger_export (last_seq, by) SELECT COALESCE(max(l.seq), 0), session_user FROM dp.ledger l;
  RETURN QUERY SELECT s.kind, s.content FROM dp._ledger_records() s;
END $$;
COMMENT ON FUNCTION dp.export_ledger() IS 'Hands out datasets, accounts, the whole ledger, releases and the chain as jsonb, in the order that pg-epsilon ledger verify --export reads, and notes that it did: DROP EXTENSION wants that first.';
REVOKE ALL ON FUNCTION dp.export_ledger() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.export_ledger() TO dp_admin;
