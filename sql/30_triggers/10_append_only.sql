CREATE FUNCTION dp._append_only() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('dp.%s is append-only', TG_TABLE_NAME),
    HINT = 'What was spent stays spent. dp.export_ledger() hands the rows out.';
END $$;
COMMENT ON FUNCTION dp._append_only() IS 'Refuses UPDATE, DELETE and TRUNCATE.';
REVOKE ALL ON FUNCTION dp._append_only() FROM PUBLIC;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON dp.ledger FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON dp.ledger FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON dp.release FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON dp.release FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_accounts BEFORE DELETE ON dp.account FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_accounts_truncate BEFORE TRUNCATE ON dp.account FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_datasets BEFORE DELETE ON dp.dataset FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_datasets_truncate BEFORE TRUNCATE ON dp.dataset FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_protections BEFORE DELETE ON dp.protection FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_protections_truncate BEFORE TRUNCATE ON dp.protection FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
