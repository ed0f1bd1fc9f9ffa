CREATE FUNCTION dp._enable_turbo(relation regclass, arguments jsonb, OUT view bigint, OUT kind text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_owner(relation, 'dp.enable_turbo');
  view := (dp._turbo('enable', arguments || dp._relation_name(relation)))::bigint;
  kind := format_type(dp._partition_type(relation), NULL);
END $$;
COMMENT ON FUNCTION dp._enable_turbo(regclass, jsonb) IS 'Checks and records a Turbo view: its number, and the type of its partition key; dp.enable_turbo adds what only the table''s owner can do.';
REVOKE ALL ON FUNCTION dp._enable_turbo(regclass, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._enable_turbo(regclass, jsonb) TO dp_admin;

CREATE PROCEDURE dp.enable_turbo(
  relation                regclass,
  attributes              name[],
  alpha                   numeric,
  beta                    numeric,
  partition_by            name DEFAULT NULL,
  partition_key_is_public boolean DEFAULT false,
  planner                 text DEFAULT 'auto',
  scale                   numeric DEFAULT NULL,
  scale_epsilon           numeric DEFAULT NULL,
  settings                jsonb DEFAULT '{}')
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made record;
BEGIN
  IF partition_by IS NOT NULL AND partition_key_is_public IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('in which partition a row is would be public, so %I must be', partition_by),
      HINT = 'Say partition_key_is_public => true if everybody may know each person''s value (a time of arrival), never for an age or a place.';
  END IF;
  IF alpha IS NULL OR beta IS NULL OR NOT (alpha > 0 AND alpha < 1 AND beta > 0 AND beta < 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'alpha and beta lie between 0 and 1', HINT = 'alpha => 0.05, beta => 0.001: answers are off by more than 5 % of the rows once in a thousand.';
  END IF;
  IF planner IS NULL OR planner NOT IN ('auto', 'turbo') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'planner is auto or turbo', HINT = 'auto takes the cheapest path that is as accurate; turbo does as the paper says.';
  END IF;
  IF jsonb_typeof(settings) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'settings is an object', HINT = 'settings => ''{"tau": 0.05, "c0": 100}''';
  END IF;
  made := dp._enable_turbo(relation, jsonb_build_object('attributes', to_jsonb(attributes), 'alpha', alpha::text, 'beta', beta::text, 'partition_by', partition_by,
    'scale', scale::text, 'scale_epsilon', scale_epsilon::text, 'settings', settings || jsonb_build_object('planner', planner)));
  IF partition_by IS NOT NULL THEN
    EXECUTE dp._seal_trigger(relation);
    IF NOT dp._hypertable(relation) THEN
      -- a trigger that is made again at each seal cannot be ALWAYS without an ALTER TABLE, which every proxy would have to follow
      EXECUTE format('CREATE OR REPLACE TRIGGER "~dp_sealed_replica" AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION dp._sealed_partition(%L, %L, %L)', relation, made.view, partition_by, made.kind);
      EXECUTE format('ALTER TABLE %s ENABLE REPLICA TRIGGER "~dp_sealed_replica"', relation);
    END IF;
  END IF;
END $$;
COMMENT ON PROCEDURE dp.enable_turbo(regclass, name[], numeric, numeric, name, boolean, text, numeric, numeric, jsonb) IS
  'Lets Turbo answer counts, sums and averages over declared attributes, each off by at most alpha times the rows except with probability beta, for much less budget than noise alone. partition_by: the key of the declared grid, whose partitions are answered from once sealed; scale: the public number of rows (of a partition), or scale_epsilon to buy it; settings: how it learns (dp.turbo shows them).';
REVOKE ALL ON PROCEDURE dp.enable_turbo(regclass, name[], numeric, numeric, name, boolean, text, numeric, numeric, jsonb) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.enable_turbo(regclass, name[], numeric, numeric, name, boolean, text, numeric, numeric, jsonb) TO dp_admin;

CREATE FUNCTION dp._disable_turbo(relation regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM dp._require_owner(relation, 'dp.disable_turbo');
  DELETE FROM dp.turbo_view v WHERE v.relation = _disable_turbo.relation;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('Turbo is not enabled for %s', relation), HINT = 'Nothing to do.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._disable_turbo(regclass) IS 'Forgets a Turbo view; dp.disable_turbo then drops what only the table''s owner can.';
REVOKE ALL ON FUNCTION dp._disable_turbo(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._disable_turbo(regclass) TO dp_admin;

CREATE PROCEDURE dp.disable_turbo(relation regclass)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
  PERFORM dp._disable_turbo(relation);
  EXECUTE format('DROP TRIGGER IF EXISTS "~dp_sealed" ON %1$s; DROP TRIGGER IF EXISTS "~dp_sealed_replica" ON %1$s', relation);
END $$;
COMMENT ON PROCEDURE dp.disable_turbo(regclass) IS 'Other mechanisms answer again. What Turbo learned and cached is forgotten; what was spent stays spent.';
REVOKE ALL ON PROCEDURE dp.disable_turbo(regclass) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.disable_turbo(regclass) TO dp_admin;
