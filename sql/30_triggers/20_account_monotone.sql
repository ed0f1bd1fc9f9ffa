CREATE FUNCTION dp._account_monotone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.dataset, NEW.role, NEW.node, NEW.relation_key, NEW.leaf_key) IS DISTINCT FROM (OLD.dataset, OLD.role, OLD.node, OLD.relation_key, OLD.leaf_key)
     OR NEW.spent_epsilon < OLD.spent_epsilon OR NEW.spent_delta < OLD.spent_delta
     OR (OLD.spent_rdp IS NOT NULL AND (NEW.spent_rdp IS NULL OR cardinality(NEW.spent_rdp) <> cardinality(OLD.spent_rdp)
         OR EXISTS (SELECT FROM unnest(OLD.spent_rdp, NEW.spent_rdp) u(o, n) WHERE u.n < u.o))) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'spent budget never decreases and never moves',
      HINT = 'Budgets are not reset. A larger need is a new dataset over other people''s data.';
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION dp._account_monotone() IS 'Accounts only grow (composition.md 3.2).';
REVOKE ALL ON FUNCTION dp._account_monotone() FROM PUBLIC;
CREATE TRIGGER monotone BEFORE UPDATE ON dp.account FOR EACH ROW EXECUTE FUNCTION dp._account_monotone();
