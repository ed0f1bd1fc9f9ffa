CREATE FUNCTION dp._release_taken(dataset text, name text, shows_grid boolean)
RETURNS TABLE (problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH old AS (SELECT * FROM dp.family_publication p WHERE p.name = _release_taken.name),
       own(relname) AS (SELECT o.name FROM old o
                        UNION ALL SELECT o.name || '_answers' FROM old o WHERE o.shows_grid)
  SELECT 'releases cannot be published here: there is no schema dp_release',
         'The administrator runs the install script pg_epsilon_install.sql again.'
  WHERE to_regnamespace('dp_release') IS NULL
  UNION ALL
  SELECT format('dp_release.%I is the table of a family of another dataset', o.name),
         'Schema dp_release is one for all datasets: give the family another name.'
  FROM old o WHERE o.dataset <> _release_taken.dataset
  UNION ALL
  SELECT format('the grid of %s is shown already', o.name),
         'Repeat it with shows_grid => true, give another name, or ask the administrator: '
         'CALL dp.drop_family(dataset, name).'
  FROM old o
  WHERE o.dataset = _release_taken.dataset AND o.shows_grid AND NOT _release_taken.shows_grid
  UNION ALL
  SELECT format('there is already something else called dp_release.%I', min(c.relname)),
         'Give the family another name.'
  FROM pg_class c
  WHERE c.relnamespace = to_regnamespace('dp_release')
    AND c.relname IN (_release_taken.name, _release_taken.name || '_answers')
    AND c.relname NOT IN (SELECT w.relname FROM own w)
  HAVING count(*) > 0
  LIMIT 1
$$;
COMMENT ON FUNCTION dp._release_taken(text, text, boolean) IS
  'Why a family cannot be published under its name: no row if it can. Public facts.';
REVOKE ALL ON FUNCTION dp._release_taken(text, text, boolean) FROM PUBLIC;

CREATE FUNCTION dp._release_rows(facts jsonb, raw jsonb) RETURNS SETOF text[]
LANGUAGE plpython3u IMMUTABLE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
from pg_epsilon.release.shown import texts
return texts(facts, raw)
$$;
COMMENT ON FUNCTION dp._release_rows(jsonb, jsonb) IS
  'Rows of a release''s weighted table as texts: post-processing of released integers, which are '
  'its arguments. Reads nothing.';
REVOKE ALL ON FUNCTION dp._release_rows(jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._show_release(relation regclass, comment text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  EXECUTE format('GRANT SELECT ON TABLE %s TO dp_reader, dp_admin, dp_analyst', relation);
  EXECUTE format('COMMENT ON TABLE %s IS %L', relation, comment);
  EXECUTE format('ANALYZE %s', relation);
  INSERT INTO dp.publication (relation, kind, comments) VALUES (relation, 'public', true)
  ON CONFLICT ON CONSTRAINT publication_pkey DO UPDATE SET comments = true;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON FUNCTION dp._show_release(regclass, text) IS
  'Publishes a table of schema dp_release, which dp_owner owns, with its comment.';
REVOKE ALL ON FUNCTION dp._show_release(regclass, text) FROM PUBLIC;

CREATE FUNCTION dp._withdraw_release(name text, shows_grid boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  relation regclass;
  gone     boolean := false;
BEGIN
  FOR relation IN
    SELECT c.oid::regclass FROM pg_class c
    WHERE (c.relname = name OR c.relname = name || '_answers' AND shows_grid) AND c.relkind = 'r'
      AND c.relnamespace = to_regnamespace('dp_release') AND c.relowner = 'dp_owner'::regrole
  LOOP
    -- before the table, so that nobody misses it (dp.lost_publication)
    DELETE FROM dp.synthetic s WHERE s.synthetic = relation;
    DELETE FROM dp.publication p WHERE p.relation = relation;
    EXECUTE format('DROP TABLE %s', relation);
    gone := true;
  END LOOP;
  -- last: a reader's open transaction makes the drop wait, and nobody else with it
  IF gone THEN
    PERFORM dp._bump_policy();
  END IF;
END $$;
COMMENT ON FUNCTION dp._withdraw_release(text, boolean) IS 'Drops the tables of a published release.';
REVOKE ALL ON FUNCTION dp._withdraw_release(text, boolean) FROM PUBLIC;

CREATE FUNCTION dp._publication_goes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._withdraw_release(OLD.name, OLD.shows_grid);
  RETURN OLD;
END $$;
COMMENT ON FUNCTION dp._publication_goes() IS
  'With a row of dp.family_publication go its tables: the family was dropped, or its question redacted.';
REVOKE ALL ON FUNCTION dp._publication_goes() FROM PUBLIC;
CREATE TRIGGER publication_goes BEFORE DELETE ON dp.family_publication
FOR EACH ROW EXECUTE FUNCTION dp._publication_goes();
ALTER TABLE dp.family_publication ENABLE ALWAYS TRIGGER publication_goes;

CREATE FUNCTION dp._free_column(relation regclass, classes jsonb, name text) RETURNS name
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.name::name
  FROM (SELECT i, _free_column.name || COALESCE('_' || NULLIF(i, 1), '') FROM generate_series(1, 1700) i) n(i, name)
  WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(_free_column.classes) c WHERE c ->> 0 = n.name)
    AND NOT EXISTS (
      SELECT FROM pg_attribute a
      JOIN dp.publication b ON b.relation = a.attrelid AND (b.columns IS NULL OR a.attname = ANY (b.columns))
      WHERE a.attrelid = _free_column.relation AND a.attname = n.name AND NOT a.attisdropped)
  ORDER BY n.i LIMIT 1
$$;
COMMENT ON FUNCTION dp._free_column(regclass, jsonb, text) IS
  'The first of value, value_2, value_3 that is no class column of a family and no published column of its '
  'relation. Columns that are not published do not count: the name would tell that there are such.';
REVOKE ALL ON FUNCTION dp._free_column(regclass, jsonb, text) FROM PUBLIC;

CREATE FUNCTION dp._release_table(family dp.family, relation regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' AS $$
#variable_conflict use_variable
DECLARE
  target  text := format('dp_release.%I', family.name);
  weight  name := dp._free_column(relation, family.facts -> 'classes', 'weight');
  epsilon numeric := (family.facts #>> '{price,epsilon}')::numeric;
  rho     numeric := (family.facts #>> '{price,rho}')::numeric;
  delta   numeric := 0;
  parts   record;
BEGIN
  SELECT string_agg(format('%I %s', a.attname, dp._type_text(b.base, b.typmod, a.attcollation)), ', '
                    ORDER BY c.i) AS columns,
         string_agg(format('r[%s]::%s', c.i, format_type(b.base, b.typmod)), ', ' ORDER BY c.i) AS casts,
         count(*) AS n, bool_and(b.base = a.atttypid) AS plain INTO parts
  FROM jsonb_array_elements(family.facts -> 'classes') WITH ORDINALITY c(class, i)
  JOIN pg_attribute a ON a.attrelid = relation AND a.attname = c.class ->> 0
    AND a.attnum > 0 AND NOT a.attisdropped
  CROSS JOIN LATERAL dp._base_type(a.atttypid, a.atttypmod) b;
  EXECUTE format('CREATE TABLE %s (%s, %I double precision, %I double precision)',
                 target, parts.columns,
                 dp._free_column(relation, family.facts -> 'classes', 'value'), weight);
  EXECUTE format('INSERT INTO %1$s SELECT %2$s, r[%3$s]::double precision, r[%4$s]::double precision '
                 'FROM dp._release_rows($1, $2) r', target, parts.casts, parts.n + 1, parts.n + 2)
    USING family.facts,
          (SELECT r.answer -> 'raw' -> 0 FROM dp.release r WHERE r.request_id = family.request_id);
  -- a domain's checks are functions of its owner's, which are not run here: such a table is no copy
  IF parts.plain THEN
    IF rho IS NOT NULL THEN
      SELECT d.delta INTO delta FROM dp.dataset d WHERE d.name = family.dataset;
      epsilon := round(rho + 2 * sqrt(rho * ln(1 / delta)), 6);
    END IF;
    PERFORM dp._record_synthetic(relation, target::regclass, 'generated', epsilon, delta, weight,
                                 format('dp_release_numeric, request %s', family.request_id));
  END IF;
  PERFORM dp._show_release(target::regclass, format(
    'Published release %s: each row is a value of a class and how many rows it stands for, with noise; '
    'rows of little weight are left out. Sums over this table have no bar.', family.name));
END $$;
COMMENT ON FUNCTION dp._release_table(dp.family, regclass) IS
  'Makes, registers and publishes the weighted table of a family. Post-processing: reads released '
  'integers and declarations.';
REVOKE ALL ON FUNCTION dp._release_table(dp.family, regclass) FROM PUBLIC;

CREATE FUNCTION dp._release_answers(name text, shows_grid boolean, answers jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  target text := format('dp_release.%I', name || '_answers');
  made   boolean := shows_grid AND to_regclass(target) IS NULL;
BEGIN
  DELETE FROM dp.family_answer f WHERE f.name = _release_answers.name;
  INSERT INTO dp.family_answer (name, number, parameters, answer, unbiased, low, high, below_resolution)
  SELECT name, i, (v ->> 0)::text[], (v ->> 1)::double precision, (v ->> 2)::double precision,
         (v ->> 3)::double precision, (v ->> 4)::double precision, (v ->> 5)::boolean
  FROM jsonb_array_elements(answers) WITH ORDINALITY a(v, i);
  IF made THEN
    EXECUTE format('CREATE TABLE %s (parameters text[], answer double precision, unbiased double precision, '
                   'low double precision, high double precision, below_resolution boolean)', target);
  END IF;
  IF shows_grid THEN
    EXECUTE format('DELETE FROM %s', target);
    EXECUTE format('INSERT INTO %s SELECT f.parameters, f.answer, f.unbiased, f.low, f.high, '
                   'f.below_resolution FROM dp.family_answer f WHERE f.name = $1 ORDER BY f.number', target)
      USING name;
  END IF;
  IF made THEN
    PERFORM dp._show_release(target::regclass,
      format('Published release %s: the answers to its publisher''s grid, with their bars.', name));
  END IF;
END $$;
COMMENT ON FUNCTION dp._release_answers(text, boolean, jsonb) IS
  'Keeps the answers to a publisher''s grid, and shows them to others as the publisher chose.';
REVOKE ALL ON FUNCTION dp._release_answers(text, boolean, jsonb) FROM PUBLIC;

CREATE FUNCTION dp._publish_release(
  request_id uuid,
  who        text,
  name       text,
  shows_grid boolean,
  bars       jsonb,
  answers    jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET synchronous_commit = on SET lock_timeout = '10s' AS $$
#variable_conflict use_variable
DECLARE
  family   dp.family;
  old      dp.family_publication;
  relation regclass;
  taken    record;
BEGIN
  SELECT * INTO family FROM dp.family f
  WHERE f.name = _publish_release.name AND f.who = _publish_release.who
    AND f.request_id = _publish_release.request_id FOR UPDATE;
  SELECT p.relation INTO relation FROM dp.relation_policy p
  JOIN dp.publication b ON b.relation = p.relation AND b.kind = 'protected'
  WHERE p.dataset = family.dataset AND p.relation_key = family.relation_key;
  IF relation IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005',
      MESSAGE = format('%s was not published: its name or its relation has changed meanwhile', name),
      HINT = 'Ask the same again: what was paid is not paid twice.';
  END IF;
  SELECT * INTO old FROM dp.family_publication p WHERE p.name = _publish_release.name FOR UPDATE;
  SELECT t.problem, t.hint INTO taken FROM dp._release_taken(family.dataset, name, shows_grid) t;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = taken.problem, HINT = taken.hint;
  END IF;
  -- nobody makes others' proxies rebuild by turns between two releases that are both paid
  IF old.request_id <> request_id
      AND (SELECT r.as_of FROM dp.release r WHERE r.request_id = old.request_id)
        > (SELECT r.as_of FROM dp.release r WHERE r.request_id = family.request_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005',
      MESSAGE = format('%s is published from a newer release than this one', name),
      HINT = 'fresh => true pays for a new release; or give another name.';
  END IF;
  IF old.name IS NULL THEN
    INSERT INTO dp.family_publication (name, dataset, request_id, shows_grid, confidence, simultaneous)
    VALUES (name, family.dataset, request_id, shows_grid,
            (bars ->> 'confidence')::numeric, (bars ->> 'simultaneous')::boolean);
    PERFORM dp._release_table(family, relation);
  ELSE
    IF old.request_id <> request_id OR to_regclass(format('dp_release.%I', name)) IS NULL THEN
      PERFORM dp._withdraw_release(name, old.shows_grid);
      PERFORM dp._release_table(family, relation);
    END IF;
    UPDATE dp.family_publication p SET request_id = _publish_release.request_id,
      shows_grid = _publish_release.shows_grid, confidence = (bars ->> 'confidence')::numeric,
      simultaneous = (bars ->> 'simultaneous')::boolean, at = clock_timestamp()
    WHERE p.name = _publish_release.name;
  END IF;
  PERFORM dp._release_answers(name, shows_grid, answers);
  RETURN jsonb_build_object('request_id', request_id, 'table', format('dp_release.%I', name));
EXCEPTION WHEN lock_not_available OR duplicate_table OR unique_violation THEN
  RAISE EXCEPTION USING ERRCODE = 'DP005',
    MESSAGE = format('%s was not published: somebody else is changing policy or tables', name),
    HINT = 'Ask the same again: what was paid is not paid twice.';
END $$;
COMMENT ON FUNCTION dp._publish_release(uuid, text, text, boolean, jsonb, jsonb) IS
  'Channel, third transaction: what a released family stands for becomes tables of schema dp_release. '
  'Costs nothing and may be repeated; answers: the rows that the asker was just given; bars: the '
  'confidence of theirs, and whether they hold at once (simultaneous).';
REVOKE ALL ON FUNCTION dp._publish_release(uuid, text, text, boolean, jsonb, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._publish_release(uuid, text, text, boolean, jsonb, jsonb) TO dp_channel;
