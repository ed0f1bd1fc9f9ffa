CREATE FUNCTION dp._units_covered(origin oid, relation oid, first boolean, key_columns name[], referenced name[], carried name[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  mine record;
  theirs record;
  policy dp.relation_policy;
BEGIN
  SELECT * INTO mine FROM dp._unit_keys(origin);
  SELECT * INTO theirs FROM dp._unit_keys(relation);
  SELECT * INTO policy FROM dp.relation_policy p WHERE p.relation = _units_covered.relation;
  IF theirs.columns IS NULL THEN
    -- its units are its rows: the row that a unit's key names
    RETURN COALESCE(mine.rest = '{}' AND cardinality(referenced) = 1 AND referenced <@ carried, false);
  END IF;
  -- the key takes the very columns with it that lead to the units from there
  IF theirs.columns <@ carried AND theirs.rest = mine.rest
     AND (theirs.target, theirs.target_column) IS NOT DISTINCT FROM (mine.target, mine.target_column) THEN
    RETURN true;
  END IF;
  IF NOT first OR cardinality(key_columns) > 1 OR NOT COALESCE(key_columns <@ mine.columns, false) THEN
    RETURN false;
  END IF;
  -- a row that references its own table, and belongs to the unit of that row by other_units: the owner named the step
  IF relation = origin THEN
    RETURN COALESCE(referenced = ARRAY[policy.unit_column], false);
  END IF;
  -- the key is the first step of the path, and the rest of the path is that relation's own
  RETURN COALESCE(mine.target = relation AND referenced = ARRAY[mine.target_column] AND policy.other_units IS NULL AND theirs.columns || theirs.rest = mine.rest
    AND policy.dataset = (SELECT p.dataset FROM dp.relation_policy p WHERE p.relation = origin), false);
END $$;
COMMENT ON FUNCTION dp._units_covered(oid, oid, boolean, name[], name[], name[]) IS 'Whether every unit of the row that a foreign key leads to is a unit of the row that it starts from, by what protect says of both. first: the key is one of the first relation itself. carried: columns there that hold values of the first relation''s unit columns.';
REVOKE ALL ON FUNCTION dp._units_covered(oid, oid, boolean, name[], name[], name[]) FROM PUBLIC;

CREATE FUNCTION dp._half_declared(of_relation oid) RETURNS TABLE (relation oid, origin oid, key oid, columns name[], units oid)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE walk AS (
    SELECT s.relation AS relation, s.relation AS origin, s.relation AS here, (dp._unit_keys(s.relation)).columns AS carried,
           NULL::oid AS key, NULL::name[] AS columns, false AS open
    FROM (SELECT p.relation::oid AS relation FROM dp.relation_policy p
          UNION SELECT b.relation FROM dp.publication b WHERE b.kind = 'public' AND NOT EXISTS (SELECT FROM dp.synthetic y WHERE y.synthetic = b.relation)) s
    WHERE _half_declared.of_relation IS NULL OR s.relation = _half_declared.of_relation
    UNION
    SELECT w.relation, CASE WHEN u.covered THEN k.target ELSE w.origin END, k.target,
           CASE WHEN u.covered THEN (dp._unit_keys(k.target)).columns ELSE c.carried END,
           CASE WHEN NOT u.covered THEN COALESCE(w.key, k.key) END, CASE WHEN NOT u.covered THEN COALESCE(w.columns, k.columns) END,
           p.relation IS NOT NULL AND NOT u.covered
    FROM walk w CROSS JOIN LATERAL dp._foreign_keys(w.here) k
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT DISTINCT f.theirs FROM unnest(k.columns, k.referenced) f(mine, theirs) WHERE f.mine = ANY (w.carried) ORDER BY 1) AS carried) c
    LEFT JOIN dp.relation_policy p ON p.relation = k.target
    CROSS JOIN LATERAL (SELECT CASE WHEN p.relation IS NULL THEN false ELSE dp._units_covered(w.origin, k.target, w.here = w.origin, k.columns, k.referenced, c.carried) END AS covered) u
    WHERE NOT w.open
  )
  SELECT DISTINCT w.relation, w.origin, w.key, w.columns, w.here FROM walk w
  -- rows joined to rows by a key: dp.protect and every question refuse that already
  WHERE w.open AND NOT EXISTS (SELECT FROM dp.relation_policy p JOIN dp.relation_policy q ON q.dataset = p.dataset JOIN dp.dataset d ON d.name = p.dataset
                               JOIN pg_constraint k ON k.conrelid = p.relation AND k.confrelid = q.relation
                               WHERE p.relation = w.origin AND q.relation = w.here AND d.unit = 'row' AND k.oid = w.key);
END $$;
COMMENT ON FUNCTION dp._half_declared(oid) IS 'Relations (NULL: all) that foreign keys lead to units through which they are not protected, directly or through any relations, and public ones that lead to protected rows: from origin, the relation itself or one that it leads to, by key, first of the keys on the way. Judged from the catalogs of now. A key with a NULL in a column leads nowhere (MATCH SIMPLE), but what may lead somewhere counts.';
REVOKE ALL ON FUNCTION dp._half_declared(oid) FROM PUBLIC;

CREATE FUNCTION dp._half_declared_told(of_relation oid) RETURNS TABLE (relation oid, origin oid, units oid, dataset text, strict boolean, shown boolean, problem text, hint text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT h.relation, h.origin, h.units, d.name, d.strict,
    NOT EXISTS (SELECT FROM unnest(ARRAY[h.origin, k.confrelid, h.units]) r(oid) WHERE NOT EXISTS (
      SELECT FROM dp.publication b WHERE b.relation = r.oid AND (r.oid <> h.origin OR b.columns IS NULL OR h.columns <@ b.columns))),
    CASE WHEN h.origin = h.relation THEN '' ELSE format('through %s, ', h.origin::regclass) END
      || format(CASE WHEN o.relation IS NULL THEN 'it is public, and its foreign key %I (%s) leads to rows of %s, which is protected'
                     ELSE 'the foreign key %I (%s) leads to units of %s, through which it is not protected' END,
                k.conname, array_to_string(h.columns, ', '), h.units::regclass),
    CASE
      WHEN o.relation IS NULL AND d.unit = 'user' AND cardinality(h.columns) = 1 AND k.confrelid = h.units AND p.other_units IS NULL THEN
        format('CALL dp.unpublish(%L), then CALL dp.protect(%1$L, %L, unit_path => %L)', h.origin::regclass, p.dataset, h.columns || COALESCE(p.unit_path, ARRAY[p.unit_column]))
      WHEN o.relation IS NULL THEN
        format('CALL dp.unpublish(%L), and protect it in a dataset with unit => ''user''', h.origin::regclass)
      WHEN other.fits THEN
        format('CALL dp.unprotect(%L), then CALL dp.protect(%1$L, %L, %s => %L, other_units => %L)', h.origin::regclass, o.dataset,
               CASE WHEN o.unit_path IS NULL THEN 'unit_column' ELSE 'unit_path' END, COALESCE(o.unit_path::text, o.unit_column), o.other_units || h.columns)
      WHEN d.strict THEN
        format('No path of dp.protect can name these units too%s. If they need no guarantee here, their owner says so: CALL dp.set_strict(%L, false)',
               CASE WHEN cardinality(h.columns) > 1 THEN ': a key of several columns is no step' ELSE '' END, d.name)
      ELSE format('These units have no guarantee. CALL dp.set_strict(%L, true) refuses such questions.', d.name)
    END
  FROM dp._half_declared(_half_declared_told.of_relation) h JOIN pg_constraint k ON k.oid = h.key
  JOIN dp.relation_policy p ON p.relation = h.units LEFT JOIN dp.relation_policy o ON o.relation = h.origin
  LEFT JOIN dp.relation_policy s ON s.relation = h.relation
  JOIN dp.dataset d ON d.name = COALESCE(s.dataset, p.dataset)
  -- the same keys of the same units as the first column: what dp.protect takes as other_units
  CROSS JOIN LATERAL (
    SELECT o.dataset = p.dataset AND cardinality(h.columns) = 1 AND k.conrelid = h.origin AND COALESCE(cardinality(o.unit_path), 1) <= 2
      AND COALESCE(cardinality(o.other_units), 0) < 3 AND h.columns[1] <> COALESCE(o.unit_path[1], o.unit_column)
      AND EXISTS (SELECT FROM pg_attribute a, pg_attribute b WHERE a.attrelid = h.origin AND b.attrelid = h.origin AND b.attname = h.columns[1]
                  AND a.attname = COALESCE(o.unit_path[1], o.unit_column) AND (a.atttypid, a.attcollation) = (b.atttypid, b.attcollation))
      AND (o.unit_path IS NULL OR EXISTS (
        SELECT FROM pg_constraint f JOIN pg_attribute a ON a.attrelid = f.conrelid AND f.conkey = ARRAY[a.attnum]
        WHERE f.contype = 'f' AND f.conrelid = h.origin AND a.attname = o.unit_path[1] AND f.confrelid = k.confrelid AND f.confkey = k.confkey))
      AND (o.unit_path IS NOT NULL OR k.confrelid = p.relation AND EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = k.confrelid AND a.attnum = k.confkey[1] AND a.attname = p.unit_column)) AS fits
  ) other
  ORDER BY h.relation::regclass::text, h.origin <> h.relation, k.conname, h.units::regclass::text;
END $$;
COMMENT ON FUNCTION dp._half_declared_told(oid) IS 'What dp._half_declared found, in words: the problem, the call that mends it, the dataset that decides whether questions are refused, and whether everything named is published, so that an analyst may read it.';
REVOKE ALL ON FUNCTION dp._half_declared_told(oid) FROM PUBLIC;
