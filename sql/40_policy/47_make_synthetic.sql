CREATE FUNCTION dp._synthesize(relation regclass, request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  id uuid := gen_random_uuid();
  reply jsonb;
  question jsonb;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.make_synthetic');
  IF NOT EXISTS (SELECT FROM dp.publication b JOIN dp.relation_policy p ON p.relation = b.relation WHERE b.relation = _synthesize.relation AND b.kind = 'protected') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not a protected relation that is published', relation),
      HINT = 'CALL dp.protect(relation, dataset), dp.describe_column for each column, and dp.publish(relation) first: the copy is made of what is declared.';
  END IF;
  SELECT request || jsonb_build_object('version', 1, 'call', 'make_synthetic', 'from', jsonb_build_object('schema', n.nspname, 'name', c.relname)) INTO question
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
  reply := dp._ask(id, 'dp_planner', question);
  IF reply ? 'refusal' THEN
    PERFORM dp._refuse(reply -> 'refusal');
  END IF;
  RETURN reply -> 'answer';
END $$;
COMMENT ON FUNCTION dp._synthesize(regclass, jsonb) IS 'The released marginals that a synthetic table is made of: charged to the dataset and to dp_planner''s allotment over the channel, answered again for nothing.';
REVOKE ALL ON FUNCTION dp._synthesize(regclass, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._synthesize(regclass, jsonb) TO dp_admin;

CREATE FUNCTION dp._synthetic_rows(synthesis jsonb, rows bigint) RETURNS SETOF record
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
from pg_epsilon.synthesis.choice import made
return made(synthesis, rows)
$$;
COMMENT ON FUNCTION dp._synthetic_rows(jsonb, bigint) IS 'Rows of a synthetic table in chunks, an array for each column: post-processing of released integers, which are its argument. Reads nothing.';
REVOKE ALL ON FUNCTION dp._synthetic_rows(jsonb, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._synthetic_rows(jsonb, bigint) TO dp_admin;

CREATE FUNCTION dp._record_generated(relation regclass, synthetic regclass, answer jsonb, epsilon numeric, rho numeric, weight name) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  delta numeric := 0;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.make_synthetic');
  PERFORM dp._require_owner(synthetic, 'dp.make_synthetic');
  -- what was paid is in the ledger of that request; a caller of this function has nothing to say about it
  IF NOT EXISTS (SELECT FROM dp.ledger l JOIN dp.relation_policy p ON p.relation = _record_generated.relation AND p.dataset = l.dataset
                 WHERE l.request_id = (answer ->> 'request_id')::uuid AND l.who = 'dp_planner' AND l.call = 'make_synthetic'
                   AND l.request -> 'from' = (SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation)
                   AND l.request -> 'budget' = jsonb_strip_nulls(jsonb_build_object('epsilon', epsilon::text, 'rho', rho::text))) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'no synthetic table of this relation was paid for', HINT = 'CALL dp.make_synthetic(relation, epsilon => 1), or dp.register_synthetic for a table from elsewhere.';
  END IF;
  IF rho IS NOT NULL THEN
    -- for people; the account has the curve itself (3.5)
    SELECT d.delta INTO delta FROM dp.dataset d JOIN dp.relation_policy p ON p.dataset = d.name WHERE p.relation = _record_generated.relation;
    epsilon := round(rho + 2 * sqrt(rho * ln(1 / delta)), 6);
  END IF;
  PERFORM dp._record_synthetic(relation, synthetic, 'generated', epsilon, delta, weight, format('dp.make_synthetic, request %s%s', answer ->> 'request_id', ', rho ' || rho));
END $$;
COMMENT ON FUNCTION dp._record_generated(regclass, regclass, jsonb, numeric, numeric, name) IS 'Registers a table as made from a paid release.';
REVOKE ALL ON FUNCTION dp._record_generated(regclass, regclass, jsonb, numeric, numeric, name) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._record_generated(regclass, regclass, jsonb, numeric, numeric, name) TO dp_admin;

CREATE PROCEDURE dp.make_synthetic(
  relation  regclass,
  epsilon   numeric DEFAULT NULL,
  method    text DEFAULT 'marginals',
  synthetic text DEFAULT NULL,
  columns   name[] DEFAULT NULL,
  rows      bigint DEFAULT NULL,
  rho       numeric DEFAULT NULL,
  bins      integer DEFAULT NULL,
  weight    name DEFAULT NULL,
  fresh     boolean DEFAULT false)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  largest constant bigint := 10000000;
  names   text[];
  target  text;
  answer  jsonb;
  total   bigint;
  parts   record;
BEGIN
  IF num_nonnulls(epsilon, rho) <> 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'a synthetic table costs an epsilon, or a rho', HINT = format('CALL dp.make_synthetic(%L, epsilon => 1)', relation);
  END IF;
  IF rows < 0 OR rows > largest THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('rows must be between 0 and %s', largest), HINT = 'Leave it out for the noisy number of rows. With weight => ''name'' fewer rows stand for all.';
  END IF;
  epsilon := trim_scale(epsilon);  -- 1 and 1.0 are one question
  rho := trim_scale(rho);
  SELECT ARRAY[n.nspname::text, c.relname || '_syn'] INTO names FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
  BEGIN
    IF synthetic IS NOT NULL THEN
      names := CASE cardinality(parse_ident(synthetic)) WHEN 1 THEN names[1] || parse_ident(synthetic) ELSE parse_ident(synthetic) END;
    END IF;
  EXCEPTION WHEN invalid_parameter_value THEN
    names := NULL;
  END;
  IF names IS NULL OR cardinality(names) <> 2 OR octet_length(names[2]) > 63 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'synthetic must name a table, with or without its schema', HINT = 'synthetic => ''adult_syn'', a name of at most 63 bytes';
  END IF;
  target := format('%I.%I', names[1], names[2]);
  IF EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = names[1] AND c.relname = names[2]) THEN
    RAISE EXCEPTION USING ERRCODE = '42P07', MESSAGE = format('%s already exists', target), HINT = CASE WHEN EXISTS (SELECT FROM dp.published p WHERE p.relation = target AND p.provenance = 'generated')
             THEN format('DROP TABLE %s first (its release stays and is used again for nothing), or give another name: synthetic => %L', target, quote_ident(names[2] || '_2'))
             ELSE format('Give another name: synthetic => %L', quote_ident(names[2] || '_syn')) END;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = names[1] AND has_schema_privilege(n.oid, 'CREATE')) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('you may not create tables in schema %I', names[1]), HINT = 'Name another schema: synthetic => ''mine.adult_syn''.';
  END IF;
  IF weight IS NOT NULL AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = weight AND a.attnum > 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%I is a column of %s', weight, relation), HINT = 'The weight needs a name of its own: weight => ''weight''.';
  END IF;
  answer := dp._synthesize(relation, jsonb_build_object(
    'budget', jsonb_strip_nulls(jsonb_build_object('epsilon', epsilon::text, 'rho', rho::text)), 'fresh', COALESCE(fresh, false),
    'synthesize', jsonb_build_object('method', method, 'columns', to_jsonb(columns), 'bins', bins::text)));
  total := (answer #>> '{synthesis,total}')::bigint;
  IF rows IS NULL AND total > largest AND weight IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('a table of %s rows (noisy) is more than the %s that are made', total, largest),
      HINT = 'Repeat the call with weight => ''weight'': each row stands for several then. It uses the release that was just paid.';
  END IF;
  rows := COALESCE(rows, least(total, largest));
  SELECT string_agg(format('%I', a.attname), ', ' ORDER BY v.i) AS columns, string_agg(format('(%s)::%s', v.sql, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY v.i) AS casts,
         string_agg(format('c%s bigint[]', v.i), ', ' ORDER BY v.i) AS arrays, string_agg('b.c' || v.i, ', ' ORDER BY v.i) AS fields, string_agg('c' || v.i, ', ' ORDER BY v.i) AS aliases INTO parts
  FROM ROWS FROM (jsonb_array_elements(answer #> '{synthesis,columns}'), jsonb_array_elements_text(answer #> '{synthesis,values}')) WITH ORDINALITY v(c, sql, i)
  JOIN pg_attribute a ON a.attrelid = relation AND a.attname = v.c ->> 'name' AND a.attnum > 0 AND NOT a.attisdropped;
  EXECUTE format('CREATE TABLE %s AS SELECT %s%s FROM %s WITH NO DATA', target, parts.columns, CASE WHEN weight IS NOT NULL THEN format(', NULL::double precision AS %I', weight) ELSE '' END, relation);
  EXECUTE format('INSERT INTO %s SELECT %s%s FROM dp._synthetic_rows($1, $2) AS b(%s), unnest(%s) AS u(%s)',
                 target, parts.casts, CASE WHEN weight IS NOT NULL THEN ', $3' ELSE '' END, parts.arrays, parts.fields, parts.aliases)
    USING answer -> 'synthesis', rows, total::double precision / greatest(rows, 1);
  EXECUTE format('ANALYZE %s', target);
  PERFORM dp._record_generated(relation, target::regclass, answer, epsilon, rho, weight);
  CALL dp.publish(target::regclass, 'public');
  RAISE NOTICE USING MESSAGE = format('%s: %s rows of %s (noisy); %s', target, rows, total, answer #>> '{notice,text}')
    || CASE WHEN rows <> total AND weight IS NULL THEN '; counts of it are not those of the relation: weight => ''name'' adds a column that makes up for it' ELSE '' END;
END $$;
COMMENT ON PROCEDURE dp.make_synthetic(regclass, numeric, text, text, name[], bigint, numeric, integer, name, boolean) IS
  'Makes, registers and publishes a differentially private synthetic copy of a protected relation, with its published columns that have declared values: noisy counts of single columns and of the pairs that tell most, paid by dp_planner''s allotment in the dataset. Repeating it uses the same release and costs nothing.';
REVOKE ALL ON PROCEDURE dp.make_synthetic(regclass, numeric, text, text, name[], bigint, numeric, integer, name, boolean) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.make_synthetic(regclass, numeric, text, text, name[], bigint, numeric, integer, name, boolean) TO dp_admin;
