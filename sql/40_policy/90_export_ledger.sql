CREATE FUNCTION dp.export_ledger() RETURNS TABLE (kind text, content jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_admin('dp.export_ledger');
  INSERT INTO dp.ledger_export (last_seq, by) SELECT COALESCE(max(l.seq), 0), session_user FROM dp.ledger l;
  RETURN QUERY SELECT 'dataset'::text, to_jsonb(d) FROM dp.dataset d
    UNION ALL SELECT 'account', to_jsonb(a) FROM dp.account a
    UNION ALL (SELECT 'ledger', to_jsonb(l) FROM dp.ledger l ORDER BY l.seq);
END $$;
COMMENT ON FUNCTION dp.export_ledger() IS 'Hands out datasets, accounts and the whole ledger as jsonb, and notes that it did: DROP EXTENSION wants that first.';
REVOKE ALL ON FUNCTION dp.export_ledger() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.export_ledger() TO dp_admin;
