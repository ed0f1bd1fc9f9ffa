CREATE PROCEDURE dp.allot(role name, dataset text, epsilon numeric, delta numeric DEFAULT NULL, per interval DEFAULT NULL)
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
  IF per <> interval '0' AND (per < interval '1 minute' OR per > interval '100 years'
     OR least(extract(year FROM per), extract(month FROM per), extract(day FROM per), extract(hour FROM per), extract(minute FROM per), extract(second FROM per)) < 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'an allotment renews after a minute at the earliest, and after 100 years at the latest',
      HINT = format('CALL dp.allot(%L, %L, epsilon => %s, per => ''1 month''); per => ''0'': it does not renew.', role, dataset, COALESCE(epsilon, 1));
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
  INSERT INTO dp.role_allotment AS r (role, dataset, epsilon, delta, delta_rdp, delta_add, per) VALUES (role, dataset, epsilon, delta, delta_r, delta - delta_r, NULLIF(per, '0'))
  ON CONFLICT ON CONSTRAINT role_allotment_pkey DO UPDATE SET epsilon = EXCLUDED.epsilon, delta = EXCLUDED.delta, delta_rdp = EXCLUDED.delta_rdp, delta_add = EXCLUDED.delta_add,
    per = CASE WHEN allot.per IS NULL THEN r.per ELSE EXCLUDED.per END,
    -- as text: '1 month' and '30 days' are equal, and are not the same
    since = CASE WHEN allot.per IS NULL OR EXCLUDED.per::text IS NOT DISTINCT FROM r.per::text THEN r.since ELSE EXCLUDED.since END;
END $$;
COMMENT ON PROCEDURE dp.allot(name, text, numeric, numeric, interval) IS
  'Sets how much of a dataset''s budget a role may spend: over its whole life, or in every period per, counted in UTC from now (per => ''1 month''). Nothing is reset: every period has an account of its own, and the dataset''s cap never renews. per left out keeps the period that is; another one begins now; ''0'': for life. Allotments may add up to more than the cap: the cap still holds.';
REVOKE ALL ON PROCEDURE dp.allot(name, text, numeric, numeric, interval) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.allot(name, text, numeric, numeric, interval) TO dp_admin;
