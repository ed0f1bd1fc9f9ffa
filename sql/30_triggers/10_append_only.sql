CREATE FUNCTION dp._append_only() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('dp.%s is append-only', TG_TABLE_NAME),
    HINT = 'What was spent stays spent. dp.export_ledger() hands the rows out.';
END $$;
COMMENT ON FUNCTION dp._append_only() IS 'Refuses UPDATE, DELETE and TRUNCATE.';
REVOKE ALL ON FUNCTION dp._append_only() FROM PUBLIC;

CREATE FUNCTION dp._only_redacted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- the text and nothing else, of a row that a ledger row of kind redact names
  IF EXISTS (SELECT FROM dp.ledger l WHERE l.kind = 'redact' AND l.request @> jsonb_build_object('redacted', jsonb_build_array(jsonb_build_object('request_id', OLD.request_id))))
     AND (CASE TG_TABLE_NAME WHEN 'ledger' THEN to_jsonb(NEW) = to_jsonb(OLD) || '{"request": null, "salt": null}'
              WHEN 'draft' THEN to_jsonb(NEW) = to_jsonb(OLD) || '{"form": "redacted"}'
              ELSE to_jsonb(NEW) = to_jsonb(OLD) || jsonb_build_object('cache_key', 'redacted ' || OLD.request_id, 'answer', (to_jsonb(OLD) -> 'answer') - 'presentation') END) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('dp.%s is append-only', TG_TABLE_NAME),
    HINT = 'What was spent stays spent. CALL dp.redact(request_id) takes the text out of a question.';
END $$;
COMMENT ON FUNCTION dp._only_redacted() IS 'Refuses UPDATE but for what dp.redact does.';
REVOKE ALL ON FUNCTION dp._only_redacted() FROM PUBLIC;
CREATE TRIGGER append_only BEFORE DELETE ON dp.ledger FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER only_redacted BEFORE UPDATE ON dp.ledger FOR EACH ROW EXECUTE FUNCTION dp._only_redacted();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON dp.ledger FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER append_only BEFORE DELETE ON dp.release FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER only_redacted BEFORE UPDATE ON dp.release FOR EACH ROW EXECUTE FUNCTION dp._only_redacted();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON dp.release FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_accounts BEFORE DELETE ON dp.account FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_accounts_truncate BEFORE TRUNCATE ON dp.account FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_datasets BEFORE DELETE ON dp.dataset FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_datasets_truncate BEFORE TRUNCATE ON dp.dataset FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_protections BEFORE DELETE ON dp.protection FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER keep_protections_truncate BEFORE TRUNCATE ON dp.protection FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER append_only BEFORE DELETE ON dp.draft FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
CREATE TRIGGER only_redacted BEFORE UPDATE ON dp.draft FOR EACH ROW EXECUTE FUNCTION dp._only_redacted();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON dp.draft FOR EACH STATEMENT EXECUTE FUNCTION dp._append_only();
