CREATE FUNCTION dp._dataset_immutable() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.name, NEW.unit, NEW.accountant, NEW.epsilon, NEW.delta, NEW.delta_rdp, NEW.delta_add, NEW.orders, NEW.created_at, NEW.id)
     IS DISTINCT FROM (OLD.name, OLD.unit, OLD.accountant, OLD.epsilon, OLD.delta, OLD.delta_rdp, OLD.delta_add, OLD.orders, OLD.created_at, OLD.id) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'unit, accountant, cap, delta split and orders of a dataset are immutable',
      HINT = 'Answers already given were promised under them.';
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION dp._dataset_immutable() IS 'Only the default epsilon, strict and the confirmed incarnation of a dataset may change (composition.md 3.7).';
REVOKE ALL ON FUNCTION dp._dataset_immutable() FROM PUBLIC;
CREATE TRIGGER immutable BEFORE UPDATE ON dp.dataset FOR EACH ROW EXECUTE FUNCTION dp._dataset_immutable();
