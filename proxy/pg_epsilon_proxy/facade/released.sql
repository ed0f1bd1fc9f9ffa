-- Schema dp_null of a facade: PostgreSQL's divisions, roots, logarithms and powers, which give NULL where those raise 22012, 2201E or
-- 2201F (composition.md §14.15). The rewriter uses them over released values alone. As dp_facade, repeatable.
-- The notice is the proxy's to count: its SQLSTATE is that of session/undefined.py, and it holds no value.

CREATE SCHEMA IF NOT EXISTS dp_null;
REVOKE ALL ON SCHEMA dp_null FROM PUBLIC;
GRANT USAGE ON SCHEMA dp_null TO dp_analyst;
COMMENT ON SCHEMA dp_null IS 'Operators and functions over released values: NULL where PostgreSQL''s own raise an error (dp.division)';

DO $do$
DECLARE
  item   record;
  target text;
BEGIN
  -- The signatures are PostgreSQL's own, so that names resolve to the same types. `risky` holds wherever an error is possible; what
  -- happens then is left to PostgreSQL. STABLE and COST 1 let the planner order and flatten as it does with the originals.
  -- A subtransaction is not allowed in a parallel plan. No SET: it takes longer than the rest; every name has its schema.
  FOR item IN
    WITH kind(name, operator, risky) AS (VALUES
      ('divide', '/', '$2 OPERATOR(pg_catalog.=) ''0''::%2$s'), ('mod', '%', '$2 OPERATOR(pg_catalog.=) ''0''::%2$s'),
      ('power', '^', '$1 OPERATOR(pg_catalog.<=) ''0''::%1$s'), ('sqrt', '|/', '$1 OPERATOR(pg_catalog.<) ''0''::%1$s'))
    , call(name, risky) AS (VALUES
      ('mod', '$2 OPERATOR(pg_catalog.=) ''0''::%2$s'), ('div', '$2 OPERATOR(pg_catalog.=) ''0''::%2$s'),
      ('power', '$1 OPERATOR(pg_catalog.<=) ''0''::%1$s'), ('pow', '$1 OPERATOR(pg_catalog.<=) ''0''::%1$s'),
      ('sqrt', '$1 OPERATOR(pg_catalog.<) ''0''::%1$s'), ('ln', '$1 OPERATOR(pg_catalog.<=) ''0''::%1$s'),
      ('log', 'true'), ('log10', '$1 OPERATOR(pg_catalog.<=) ''0''::%1$s'))
    , found(name, arguments, result, risky, value, operator) AS (
      SELECT k.name, array_remove(ARRAY[NULLIF(o.oprleft, 0), o.oprright], NULL), o.oprresult, k.risky,
        CASE WHEN o.oprleft = 0 THEN format('OPERATOR(pg_catalog.%s) $1', k.operator) ELSE format('$1 OPERATOR(pg_catalog.%s) $2', k.operator) END, k.operator
      FROM pg_catalog.pg_operator o JOIN kind k ON k.operator = o.oprname WHERE o.oprnamespace = 'pg_catalog'::regnamespace
      UNION ALL
      SELECT c.name, ARRAY(SELECT unnest(p.proargtypes)), p.prorettype, c.risky,
        format('pg_catalog.%I(%s)', c.name, CASE WHEN p.pronargs = 2 THEN '$1, $2' ELSE '$1' END), NULL
      FROM pg_catalog.pg_proc p JOIN call c ON c.name = p.proname WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f')
    SELECT f.*, format_type(f.arguments[1], NULL) AS first, format_type(f.arguments[cardinality(f.arguments)], NULL) AS last
    FROM found f WHERE f.arguments <@ ARRAY['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'money', 'interval']::regtype[]::oid[]
  LOOP
    target := pg_catalog.format('dp_null.%I(%s)', item.name, (SELECT pg_catalog.string_agg(pg_catalog.format_type(a, NULL), ', ') FROM unnest(item.arguments) a));
    EXECUTE pg_catalog.format($make$CREATE OR REPLACE FUNCTION %s RETURNS %s LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE COST 1 AS $body$
      BEGIN
        IF %s THEN
          IF pg_catalog.lower(pg_catalog.btrim(pg_catalog.current_setting('dp.division', true))) OPERATOR(pg_catalog.=) 'error' THEN
            RETURN %4$s;
          END IF;
          BEGIN
            RETURN %4$s;
          EXCEPTION WHEN division_by_zero OR invalid_argument_for_logarithm OR invalid_argument_for_power_function THEN
            RAISE NOTICE USING ERRCODE = '01DP0', MESSAGE = 'NULL, for it has no value';
            RETURN NULL;
          END;
        END IF;
        RETURN %4$s;
      END $body$ $make$, target, pg_catalog.format_type(item.result, NULL), pg_catalog.format(item.risky, item.first, item.last), item.value);
    EXECUTE 'REVOKE ALL ON FUNCTION ' || target || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || target || ' TO dp_analyst';
    EXECUTE 'COMMENT ON FUNCTION ' || target || ' IS ' || pg_catalog.quote_literal(item.value || '; NULL where that has no value');
    CONTINUE WHEN item.operator IS NULL OR pg_catalog.to_regoperator(pg_catalog.format('dp_null.%s(%s,%s)', item.operator,
      CASE WHEN cardinality(item.arguments) = 1 THEN 'NONE' ELSE item.first END, item.last)) IS NOT NULL;
    EXECUTE pg_catalog.format('CREATE OPERATOR dp_null.%s (FUNCTION = dp_null.%I, %sRIGHTARG = %s)', item.operator, item.name,
      CASE WHEN cardinality(item.arguments) = 1 THEN '' ELSE pg_catalog.format('LEFTARG = %s, ', item.first) END, item.last);
  END LOOP;
END $do$;
