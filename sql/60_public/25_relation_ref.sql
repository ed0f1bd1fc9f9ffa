CREATE FUNCTION dp.relation_ref(relation regclass, alias name DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname, 'alias', alias)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
END $$;
COMMENT ON FUNCTION dp.relation_ref(regclass, name) IS 'A relation by name, as requests carry it: OIDs differ between the facade and the private database.';
REVOKE ALL ON FUNCTION dp.relation_ref(regclass, name) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.relation_ref(regclass, name) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.joins_ref(joins regclass[], aliases name[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF array_position(joins, NULL) IS NOT NULL OR (aliases IS NOT NULL AND cardinality(aliases) <> 1 + COALESCE(cardinality(joins), 0)) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'joins names relations, and aliases gives a name to the first relation and to each of them',
      HINT = 'joins => ''{orders,customer}'', with the conditions in the predicate; aliases => ''{e1,e2}'' where a relation is joined with itself.';
  END IF;
  RETURN (SELECT COALESCE(jsonb_agg(dp.relation_ref(j.relation, aliases[j.i + 1]) || '{"on": null}' ORDER BY j.i), '[]') FROM unnest(joins) WITH ORDINALITY AS j(relation, i));
END $$;
COMMENT ON FUNCTION dp.joins_ref(regclass[], name[]) IS 'The joins member of a request: inner joins, whose conditions are in the predicate.';
REVOKE ALL ON FUNCTION dp.joins_ref(regclass[], name[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.joins_ref(regclass[], name[]) TO dp_analyst, dp_gateway;

CREATE FUNCTION dp.budget_ref(epsilon double precision, rho double precision, alpha double precision, beta double precision) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
BEGIN
  RETURN NULLIF(jsonb_strip_nulls(jsonb_build_object('epsilon', epsilon::text, 'rho', rho::text, 'alpha', alpha::text, 'beta', beta::text)), '{}'::jsonb);
END $$;
COMMENT ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) IS 'The budget member of a request: the shortest decimal text of each number, so that 0.1 costs exactly 0.1.';
REVOKE ALL ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp.budget_ref(double precision, double precision, double precision, double precision) TO dp_analyst, dp_gateway;
