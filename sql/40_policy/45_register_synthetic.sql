CREATE FUNCTION dp._lock_root(dataset text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO dp.account (dataset, period, node) VALUES (dataset, '-infinity', 'root') ON CONFLICT DO NOTHING;
  PERFORM FROM dp.account a WHERE a.dataset = _lock_root.dataset AND a.role = '' AND a.node = 'root' FOR UPDATE;
END $$;
COMMENT ON FUNCTION dp._lock_root(text) IS 'Locks a dataset''s own tree, as every question''s charge does, before anything is read of it: no charge is checked against a total that another is about to change.';
REVOKE ALL ON FUNCTION dp._lock_root(text) FROM PUBLIC;

CREATE FUNCTION dp._import_release(relation regclass, synthetic regclass, epsilon numeric, delta numeric) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  policy dp.relation_policy;
  price  jsonb;
  curve  numeric[];
  entered uuid;
BEGIN
  SELECT * INTO policy FROM dp.relation_policy p WHERE p.relation = _import_release.relation;
  PERFORM dp._lock_root(policy.dataset);
  price := dp._engine('import', (SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname, 'epsilon', epsilon::text, 'delta', delta::text)
                                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation));
  SELECT array_agg(v::numeric ORDER BY i) INTO curve FROM jsonb_array_elements_text(NULLIF(price -> 'rdp', 'null')) WITH ORDINALITY u(v, i);
  INSERT INTO dp.account AS a (dataset, period, node, relation_key, spent_epsilon, spent_delta, spent_rdp)
  VALUES (policy.dataset, '-infinity', price -> 'scope' ->> 'node', COALESCE(price -> 'scope' ->> 'relation', ''), (price ->> 'epsilon')::numeric, (price ->> 'delta')::numeric, curve)
  ON CONFLICT ON CONSTRAINT account_pkey DO UPDATE SET spent_epsilon = a.spent_epsilon + EXCLUDED.spent_epsilon, spent_delta = a.spent_delta + EXCLUDED.spent_delta,
    spent_rdp = (SELECT array_agg(COALESCE(o, 0) + n ORDER BY i) FROM unnest(a.spent_rdp, EXCLUDED.spent_rdp) WITH ORDINALITY u(o, n, i));
  INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope, policy_version)
  SELECT gen_random_uuid(), session_user, policy.dataset, 'import', 'dp.register_synthetic', 'import',
         jsonb_build_array(price -> 'charge' || jsonb_build_object('relation', policy.relation_key, 'synthetic', synthetic::text)),
         (price ->> 'epsilon')::numeric, (price ->> 'delta')::numeric, curve, price -> 'scope', version FROM dp.policy_state
  RETURNING request_id INTO entered;
  PERFORM dp._chain(ARRAY[entered]);
END $$;
COMMENT ON FUNCTION dp._import_release(regclass, regclass, numeric, numeric) IS 'Charges the dataset for an outside release about a relation, proved (epsilon, delta) under add/remove: to the relation''s node for row units, else to the root (composition.md 3.1, 4).';
REVOKE ALL ON FUNCTION dp._import_release(regclass, regclass, numeric, numeric) FROM PUBLIC;

CREATE FUNCTION dp._record_synthetic(relation regclass, synthetic regclass, provenance text, epsilon numeric, delta numeric, weight name, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  found_columns name[];
  flaw record;
BEGIN
  IF NOT EXISTS (SELECT FROM dp.publication b JOIN dp.relation_policy p ON p.relation = b.relation WHERE b.relation = _record_synthetic.relation AND b.kind = 'protected') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not a protected relation that is published', relation),
      HINT = 'CALL dp.protect(relation, dataset) and dp.publish(relation) first: a synthetic copy shows its columns.';
  END IF;
  -- what questions can mention: published and declared. Keys of units may be missing; a generator need not make what nobody declared a domain of
  SELECT array_agg(u.n ORDER BY u.n) INTO found_columns FROM (
    SELECT dp._common_columns(relation, synthetic, weight) AS n
    UNION SELECT c.attname FROM dp.column_policy c JOIN dp.publication b ON b.relation = c.relation JOIN dp.relation_policy p ON p.relation = c.relation
    WHERE c.relation = _record_synthetic.relation AND provenance <> 'generated' AND (b.columns IS NULL OR c.attname = ANY (b.columns))
      AND c.attname <> ALL (array_remove(ARRAY[p.unit_column, p.unit_path[1]] || p.other_units, NULL))) u;
  IF found_columns IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s has no published column of %s', synthetic, relation), HINT = 'A synthetic copy has the columns of the relation, under the same names and types.';
  END IF;
  SELECT f.problem, f.hint INTO flaw FROM dp._synthetic_flaws(relation, synthetic, found_columns, weight) f LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = flaw.problem, HINT = flaw.hint;
  END IF;
  INSERT INTO dp.synthetic (synthetic, relation, provenance, epsilon, delta, weight, proof, columns)
  VALUES (synthetic, relation, provenance, epsilon, COALESCE(delta, 0), weight, proof, found_columns)
  ON CONFLICT ON CONSTRAINT synthetic_pkey DO UPDATE SET relation = EXCLUDED.relation, provenance = EXCLUDED.provenance, epsilon = EXCLUDED.epsilon, delta = EXCLUDED.delta,
    weight = EXCLUDED.weight, proof = EXCLUDED.proof, columns = EXCLUDED.columns, since = EXCLUDED.since;
  INSERT INTO dp.publication (relation, kind) VALUES (synthetic, 'public')
  ON CONFLICT ON CONSTRAINT publication_pkey DO UPDATE SET kind = EXCLUDED.kind, columns = NULL;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._record_synthetic(regclass, regclass, text, numeric, numeric, name, text) IS
  'Checks and records a synthetic copy and publishes it; charges nothing and asks nobody''s leave: its callers do (dp._register_synthetic, dp.make_synthetic). The grants to dp_reader and dp_owner are the caller''s too.';
REVOKE ALL ON FUNCTION dp._record_synthetic(regclass, regclass, text, numeric, numeric, name, text) FROM PUBLIC;

CREATE FUNCTION dp._register_synthetic(relation regclass, synthetic regclass, provenance text, epsilon numeric, delta numeric, weight name, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  entered uuid;
  again boolean := EXISTS (SELECT FROM dp.synthetic s WHERE s.synthetic = _register_synthetic.synthetic AND s.provenance IN ('dp', 'generated'));
BEGIN
  PERFORM dp._require_owner(relation, 'dp.register_synthetic');
  PERFORM dp._require_owner(synthetic, 'dp.register_synthetic');
  IF provenance IS NULL OR provenance NOT IN ('dp', 'public', 'declassified') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'provenance must be ''dp'', ''public'' or ''declassified''',
      HINT = '''dp'': a release proved (epsilon, delta), which is charged; ''public'': never derived from private rows; ''declassified'': you answer for it, and dp.budget says so for ever. dp.make_synthetic registers what it makes itself.';
  END IF;
  IF provenance = 'dp' AND (epsilon > 0 AND epsilon <= 1000 AND delta >= 0 AND delta < 1) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'provenance ''dp'' needs an epsilon above 0 (up to 1000), and a delta of at least 0 and less than 1', HINT = 'Give the (epsilon, delta) that its generator proved under adding or removing one privacy unit.';
  END IF;
  IF provenance <> 'dp' AND (epsilon IS NOT NULL OR delta <> 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('provenance %L has no epsilon and no delta', provenance), HINT = 'Leave them out, or use provenance => ''dp'' for a release with a proof.';
  END IF;
  IF provenance IN ('dp', 'declassified') THEN
    -- accounts before the policy version, as dp.protect and dp.confirm_ledger do: two owners never wait for each other
    PERFORM dp._lock_root(p.dataset) FROM dp.relation_policy p WHERE p.relation = _register_synthetic.relation;
  END IF;
  PERFORM dp._record_synthetic(relation, synthetic, provenance, epsilon, delta, weight, proof);
  IF provenance = 'dp' THEN
    PERFORM dp._import_release(relation, synthetic, epsilon, delta);
    RAISE NOTICE USING MESSAGE = format('%s: epsilon %s and delta %s were charged to dataset %L%s', synthetic, trim_scale(epsilon), trim_scale(delta),
      (SELECT p.dataset FROM dp.relation_policy p WHERE p.relation = _register_synthetic.relation), CASE WHEN again THEN ' again: a new release of this table, on top of what the last one cost' ELSE '' END);
  ELSIF provenance = 'declassified' THEN
    INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope, policy_version)
    SELECT gen_random_uuid(), session_user, p.dataset, 'declassified', 'dp.register_synthetic', 'declassified',
           jsonb_build_array(jsonb_build_object('kind', 'declassified', 'relation', p.relation_key, 'synthetic', synthetic::text)), 0, 0, '{"node": "root"}', v.version
    FROM dp.relation_policy p, dp.policy_state v WHERE p.relation = _register_synthetic.relation
    RETURNING request_id INTO entered;
    PERFORM dp._chain(ARRAY[entered]);
    RAISE NOTICE USING MESSAGE = format('%s: from now on dp.budget states that the guarantee of its dataset is relative to this table', synthetic);
  END IF;
END $$;
COMMENT ON FUNCTION dp._register_synthetic(regclass, regclass, text, numeric, numeric, name, text) IS 'Checks, records and charges a synthetic table from outside; dp.register_synthetic adds what only the table''s owner can do.';
REVOKE ALL ON FUNCTION dp._register_synthetic(regclass, regclass, text, numeric, numeric, name, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._register_synthetic(regclass, regclass, text, numeric, numeric, name, text) TO dp_admin;

CREATE PROCEDURE dp.register_synthetic(
  relation   regclass,
  synthetic  regclass,
  provenance text,
  epsilon    numeric DEFAULT NULL,
  delta      numeric DEFAULT 0,
  weight     name DEFAULT NULL,
  proof      text DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reader text;
  unfit  boolean := false;
BEGIN
  PERFORM dp._register_synthetic(relation, synthetic, provenance, epsilon, delta, weight, proof);
  FOREACH reader IN ARRAY ARRAY['dp_reader', 'dp_owner'] LOOP
    EXECUTE format('GRANT SELECT ON TABLE %s TO %I', synthetic, reader);
    IF NOT has_schema_privilege(reader, (SELECT c.relnamespace FROM pg_class c WHERE c.oid = synthetic), 'USAGE') THEN
      EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = synthetic), reader);
    END IF;
  END LOOP;
  IF weight IS NOT NULL THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %1$s t WHERE NOT (t.%2$I::numeric >= 0 AND t.%2$I::numeric < ''Infinity''))', synthetic, weight) INTO unfit;
  END IF;
  IF unfit THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('the weight column %I of %s has values that are negative or not finite', weight, synthetic),
      HINT = 'A weight says how many rows a synthetic row stands for: 0 or more. NULL counts as 0.';
  END IF;
END $$;
COMMENT ON PROCEDURE dp.register_synthetic(regclass, regclass, text, numeric, numeric, name, text) IS
  'Registers a table from outside as a synthetic copy of a protected relation and publishes its rows. provenance ''dp'' charges the (epsilon, delta) that the release was proved to have under add/remove; ''public'' (never derived from private rows) costs nothing; ''declassified'' costs nothing and dp.budget states for ever that the guarantee is relative to that table. Runs as the caller: only the owner can grant SELECT to dp_reader and dp_owner.';
REVOKE ALL ON PROCEDURE dp.register_synthetic(regclass, regclass, text, numeric, numeric, name, text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.register_synthetic(regclass, regclass, text, numeric, numeric, name, text) TO dp_admin;
