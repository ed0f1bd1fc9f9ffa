CREATE PROCEDURE dp.create_dataset(
  name               text,
  unit               text DEFAULT 'row',
  epsilon            numeric DEFAULT NULL,
  delta              numeric DEFAULT 0,
  accountant         text DEFAULT 'pure',
  delta_thresholding numeric DEFAULT NULL,
  orders             numeric[] DEFAULT NULL,
  default_epsilon    numeric DEFAULT NULL,
  strict             boolean DEFAULT true)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  delta_a numeric;
BEGIN
  PERFORM dp._require_admin('dp.create_dataset');
  IF create_dataset.name IS NULL OR create_dataset.name !~ '^[^[:cntrl:]]{1,63}$' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'a dataset needs a name of 1 to 63 printable characters', HINT = 'CALL dp.create_dataset(''people'', epsilon => 1)';
  END IF;
  IF create_dataset.name = 'all' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'no dataset can be called ''all''', HINT = 'CALL dp.confirm_ledger(''all'', ...) means every frozen one: choose another name.';
  END IF;
  IF unit IS NULL OR unit NOT IN ('row', 'user') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'unit must be ''row'' or ''user''', HINT = 'Choose what one person can be: a single row, or everything that shares a user key.';
  END IF;
  IF accountant IS NULL OR accountant NOT IN ('pure', 'renyi') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'accountant must be ''pure'' or ''renyi''', HINT = '''pure'' adds epsilons; ''renyi'' needs delta > 0 and takes Gaussian noise.';
  END IF;
  IF epsilon IS NULL OR epsilon = 'NaN' OR epsilon <= 0 OR epsilon > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'epsilon, the cap of the dataset, must be above 0 and at most 1000', HINT = 'Common caps are between 0.1 and 10.';
  END IF;
  IF delta IS NULL OR delta = 'NaN' OR delta < 0 OR delta >= 1 OR (accountant = 'renyi' AND delta = 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'delta must be at least 0 and below 1, and above 0 for a renyi accountant', HINT = 'A common delta is well below one over the number of people, e.g. 1e-9.';
  END IF;
  delta_a := CASE WHEN accountant = 'pure' THEN delta ELSE COALESCE(delta_thresholding, delta / 2) END;
  IF delta_a < 0 OR delta_a = 'NaN' OR (accountant = 'renyi' AND delta_a >= delta) OR (accountant = 'pure' AND delta_thresholding IS DISTINCT FROM NULL AND delta_thresholding <> delta) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'delta_thresholding must be at least 0 and below delta', HINT = 'It is the part of delta that mechanisms may spend; a pure dataset has no other part. Leave it out for half of delta.';
  END IF;
  IF default_epsilon IS NOT NULL AND (default_epsilon = 'NaN' OR default_epsilon <= 0 OR default_epsilon > epsilon) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'default_epsilon must be above 0 and at most the cap', HINT = 'It is what a query costs when nobody says how much.';
  END IF;
  IF EXISTS (SELECT FROM unnest(ARRAY[epsilon, delta, delta_a, default_epsilon]) v WHERE scale(trim_scale(v)) > 18) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'amounts have at most 18 decimals', HINT = 'The ledger''s grain is 1e-18.';
  END IF;
  IF array_position(orders, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'orders must not be NULL', HINT = 'Leave orders out for the default grid.';
  END IF;
  IF accountant = 'pure' AND orders IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'orders belong to a renyi accountant', HINT = 'Leave orders out.';
  END IF;
  IF strict IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'strict must be true or false', HINT = 'Leave it out: questions about units through which a relation is not protected are refused then.';
  END IF;
  IF EXISTS (SELECT FROM dp.dataset d WHERE d.name = create_dataset.name) THEN
    RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('dataset %L already exists', create_dataset.name), HINT = 'Datasets are never replaced: choose another name.';
  END IF;
  INSERT INTO dp.dataset (name, unit, accountant, epsilon, delta, delta_rdp, delta_add, orders, default_epsilon, incarnation, strict)
  SELECT create_dataset.name, unit, accountant, epsilon, delta, delta - delta_a, delta_a,
         CASE WHEN accountant = 'renyi' THEN dp._renyi_orders(epsilon, delta - delta_a, orders) END, default_epsilon, i.id, strict
  FROM dp.incarnation i;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.create_dataset(text, text, numeric, numeric, text, numeric, numeric[], numeric, boolean) IS
  'Makes a dataset: one privacy unit, one accountant, one cap (epsilon, delta) for all relations that will be protected in it. strict: questions about units through which a relation is not protected are refused (dp.set_strict). Everything but default_epsilon and strict is immutable.';
REVOKE ALL ON PROCEDURE dp.create_dataset(text, text, numeric, numeric, text, numeric, numeric[], numeric, boolean) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.create_dataset(text, text, numeric, numeric, text, numeric, numeric[], numeric, boolean) TO dp_admin;
