CREATE PROCEDURE dp.allot(role name, dataset text, epsilon numeric, delta numeric DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  d dp.dataset;
  delta_r numeric;
BEGIN
  PERFORM dp._require_admin('dp.allot');
  SELECT * INTO d FROM dp.dataset x WHERE x.name = allot.dataset;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L does not exist', dataset), HINT = 'SELECT dataset FROM dp.budget';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role %s does not exist', COALESCE(quote_ident(role), 'NULL')), HINT = 'CREATE ROLE it and GRANT dp_analyst to it.';
  END IF;
  delta := COALESCE(delta, d.delta);
  IF epsilon IS NULL OR epsilon = 'NaN' OR epsilon < 0 OR epsilon > d.epsilon OR delta = 'NaN' OR delta < 0 OR delta > d.delta
     OR scale(trim_scale(epsilon)) > 18 OR scale(trim_scale(delta)) > 18 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'an allotment lies between 0 and the dataset''s cap', HINT = format('The cap of %L is epsilon %s, delta %s.', dataset, trim_scale(d.epsilon), trim_scale(d.delta));
  END IF;
  delta_r := CASE WHEN d.delta > 0 THEN delta * (d.delta_rdp / d.delta) ELSE 0 END;
  IF d.accountant = 'renyi' AND epsilon > 0 THEN
    PERFORM dp._renyi_orders(epsilon, delta_r, d.orders);
  END IF;
  INSERT INTO dp.role_allotment (role, dataset, epsilon, delta, delta_rdp, delta_add) VALUES (role, dataset, epsilon, delta, delta_r, delta - delta_r)
  ON CONFLICT ON CONSTRAINT role_allotment_pkey DO UPDATE SET epsilon = EXCLUDED.epsilon, delta = EXCLUDED.delta, delta_rdp = EXCLUDED.delta_rdp, delta_add = EXCLUDED.delta_add;
END $$;
COMMENT ON PROCEDURE dp.allot(name, text, numeric, numeric) IS
  'Sets how much of a dataset''s budget a role may spend over its whole life (what it has spent stays spent). Allotments may add up to more than the cap: the cap still holds.';
REVOKE ALL ON PROCEDURE dp.allot(name, text, numeric, numeric) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.allot(name, text, numeric, numeric) TO dp_admin;
