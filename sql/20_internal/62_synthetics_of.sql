CREATE FUNCTION dp._type_text(type oid, typmod integer, collation_ oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format_type(type, typmod) || COALESCE((SELECT format(' COLLATE %I.%I', n.nspname, o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace WHERE o.oid = collation_), '')
$$;
COMMENT ON FUNCTION dp._type_text(oid, integer, oid) IS 'A column''s type and collation, as in CREATE TABLE.';
REVOKE ALL ON FUNCTION dp._type_text(oid, integer, oid) FROM PUBLIC;

CREATE FUNCTION dp._is_release(relation oid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  -- by the record too: an administrator may rename the schema
  SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid = _is_release.relation AND c.relnamespace = to_regnamespace('dp_release') AND c.relowner = 'dp_owner'::regrole)
    OR EXISTS (SELECT FROM dp.synthetic s WHERE s.synthetic = _is_release.relation AND s.provenance = 'generated' AND s.proof ^@ 'dp_release_numeric, request ')
$$;
COMMENT ON FUNCTION dp._is_release(oid) IS 'Whether it is a table that dp_release_numeric(..., publish => true) made.';
REVOKE ALL ON FUNCTION dp._is_release(oid) FROM PUBLIC;

CREATE FUNCTION dp._synthetic_flaws(relation oid, synthetic oid, columns name[], weight name) RETURNS TABLE (problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  -- what the table is comes first: nobody should be told to change the columns of a protected one
  SELECT format('%s is not an ordinary table', _synthetic_flaws.synthetic::regclass), 'Copy its rows into an ordinary, permanent table of your own.'
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.oid = _synthetic_flaws.synthetic AND (c.relkind <> 'r' OR c.relpersistence = 't' OR n.nspname IN ('dp', 'information_schema') OR n.nspname ~ '^pg_')
  UNION ALL
  SELECT format('%s is protected itself, or holds rows of a protected relation', _synthetic_flaws.synthetic::regclass),
         'A synthetic table is public: keep its rows in a table apart, neither protected nor a part or parent of a protected one.'
  WHERE EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = _synthetic_flaws.synthetic) OR EXISTS (SELECT FROM dp._protected_kin(_synthetic_flaws.synthetic::regclass))
  UNION ALL
  SELECT format('column %I of %s is missing from its synthetic copy %s', u.n, _synthetic_flaws.relation::regclass, _synthetic_flaws.synthetic::regclass),
         COALESCE((SELECT format('ALTER TABLE %s ADD COLUMN %I %s, or rename the column that stands for it.', _synthetic_flaws.synthetic::regclass, u.n, dp._type_text(a.atttypid, a.atttypmod, a.attcollation))
                   FROM pg_attribute a WHERE a.attrelid = _synthetic_flaws.relation AND a.attname = u.n AND a.attnum > 0 AND NOT a.attisdropped),
                  format('Rename the column of %s that stands for it, as it was renamed in %s.', _synthetic_flaws.synthetic::regclass, _synthetic_flaws.relation::regclass))
  FROM unnest(_synthetic_flaws.columns) u(n)
  WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = _synthetic_flaws.synthetic AND a.attname = u.n AND a.attnum > 0 AND NOT a.attisdropped)
  UNION ALL
  SELECT format('%s, of which %s is a synthetic copy, has no column %I any more', _synthetic_flaws.relation::regclass, _synthetic_flaws.synthetic::regclass, u.n),
         -- not dp.register_synthetic: that would be charged as a new release
         format('Do the same to the copy: ALTER TABLE %1$s RENAME COLUMN %2$I TO its new name, or ALTER TABLE %1$s DROP COLUMN %2$I', _synthetic_flaws.synthetic::regclass, u.n)
  FROM unnest(_synthetic_flaws.columns) u(n)
  WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = _synthetic_flaws.relation AND a.attname = u.n AND a.attnum > 0 AND NOT a.attisdropped)
  UNION ALL
  SELECT format('column %I has another type or collation in %s than in the synthetic copy %s', a.attname, _synthetic_flaws.relation::regclass, _synthetic_flaws.synthetic::regclass),
         format('ALTER TABLE %s ALTER COLUMN %I TYPE %s', _synthetic_flaws.synthetic::regclass, a.attname, dp._type_text(a.atttypid, a.atttypmod, a.attcollation))
  FROM unnest(_synthetic_flaws.columns) u(n)
  JOIN pg_attribute a ON a.attrelid = _synthetic_flaws.relation AND a.attname = u.n AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_attribute b ON b.attrelid = _synthetic_flaws.synthetic AND b.attname = u.n AND b.attnum > 0 AND NOT b.attisdropped
  WHERE (a.atttypid, a.atttypmod, a.attcollation) <> (b.atttypid, b.atttypmod, b.attcollation)
  UNION ALL
  SELECT format('%I is no column of numbers of %s that could hold weights', _synthetic_flaws.weight, _synthetic_flaws.synthetic::regclass),
         'A weight is a column of type integer, numeric or double precision.'
  WHERE _synthetic_flaws.weight IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = _synthetic_flaws.synthetic AND a.attname = _synthetic_flaws.weight AND a.attnum > 0 AND NOT a.attisdropped
      AND (dp._base_type(a.atttypid, a.atttypmod)).base IN (20, 21, 23, 700, 701, 1700))
  UNION ALL
  SELECT format('the weight column %I of %s is a column of %s too', _synthetic_flaws.weight, _synthetic_flaws.synthetic::regclass, _synthetic_flaws.relation::regclass),
         'A weight says how many rows a synthetic row stands for: give it a name that the private relation does not use.'
  -- of a published release the name was free among published columns: others are not told of, and nobody can rename it
  WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = _synthetic_flaws.relation AND a.attname = _synthetic_flaws.weight AND a.attnum > 0 AND NOT a.attisdropped)
    AND NOT dp._is_release(_synthetic_flaws.synthetic)
  UNION ALL
  SELECT format('a foreign key ties the rows of %s to those of %s, which is protected', _synthetic_flaws.synthetic::regclass, k.confrelid::regclass),
         format('ALTER TABLE %s DROP CONSTRAINT %I: a deleted private row must not change a public table.', _synthetic_flaws.synthetic::regclass, k.conname)
  FROM pg_constraint k JOIN dp.relation_policy p ON p.relation = k.confrelid WHERE k.contype = 'f' AND k.conrelid = _synthetic_flaws.synthetic
  UNION ALL
  SELECT format('row-level security of %s would filter what is read of it', _synthetic_flaws.synthetic::regclass), format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', _synthetic_flaws.synthetic::regclass)
  FROM pg_class c WHERE c.oid = _synthetic_flaws.synthetic AND c.relrowsecurity
$$;
COMMENT ON FUNCTION dp._synthetic_flaws(oid, oid, name[], name) IS 'Why a table cannot serve as a synthetic copy of a relation, for its owner: no row if it can.';
REVOKE ALL ON FUNCTION dp._synthetic_flaws(oid, oid, name[], name) FROM PUBLIC;

CREATE FUNCTION dp._common_columns(relation oid, synthetic oid, weight name) RETURNS SETOF name
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT a.attname FROM pg_attribute a
  JOIN dp.publication b ON b.relation = a.attrelid AND (b.columns IS NULL OR a.attname = ANY (b.columns))
  JOIN pg_attribute s ON s.attrelid = _common_columns.synthetic AND s.attname = a.attname AND s.attnum > 0 AND NOT s.attisdropped
  WHERE a.attrelid = _common_columns.relation AND a.attnum > 0 AND NOT a.attisdropped
    -- the table of a release ends with its value and its weight, which stand for no column, whatever is published later
    AND NOT (dp._is_release(_common_columns.synthetic)
             AND s.attnum >= (SELECT w.attnum - 1 FROM pg_attribute w WHERE w.attrelid = s.attrelid AND w.attname = _common_columns.weight))
$$;
COMMENT ON FUNCTION dp._common_columns(oid, oid, name) IS 'Published columns of a relation whose names another table has too, with this column of weights: of the table of a release its classes.';
REVOKE ALL ON FUNCTION dp._common_columns(oid, oid, name) FROM PUBLIC;

CREATE FUNCTION dp._synthetics_follow() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE dp.synthetic s SET columns = f.columns
  FROM (SELECT o.synthetic, array_agg(u.n ORDER BY u.n) AS columns FROM dp.synthetic o CROSS JOIN LATERAL (
          SELECT c.n FROM dp._common_columns(o.relation, o.synthetic, o.weight) c(n) WHERE c.n IS DISTINCT FROM o.weight
          UNION SELECT c.n FROM unnest(o.columns) c(n)
          WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid IN (o.relation, o.synthetic) AND a.attname = c.n AND a.attnum > 0 AND NOT a.attisdropped)) u
        GROUP BY o.synthetic) f
  WHERE s.synthetic = f.synthetic AND s.columns <> f.columns
$$;
COMMENT ON FUNCTION dp._synthetics_follow() IS 'A column that was renamed, added or dropped in a relation and in its synthetic copy alike is followed; if only one of them has it, the copy has a flaw. Without this, a renamed column would cost a new registration, with a new charge.';
REVOKE ALL ON FUNCTION dp._synthetics_follow() FROM PUBLIC;

CREATE FUNCTION dp._synthetic_hidden(synthetic oid) RETURNS TABLE (problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('the engine may not read the synthetic table %s', c.oid::regclass), format('GRANT SELECT ON %s TO dp_owner, dp_reader, and USAGE on its schema', c.oid::regclass)
  FROM pg_class c WHERE c.oid = _synthetic_hidden.synthetic AND NOT (has_schema_privilege('dp_owner', c.relnamespace, 'USAGE') AND has_table_privilege('dp_owner', c.oid, 'SELECT'))
  UNION ALL
  SELECT format('the synthetic table %s is not published with all its columns', _synthetic_hidden.synthetic::regclass), format('CALL dp.publish(%L, ''public'')', _synthetic_hidden.synthetic::regclass)
  WHERE NOT EXISTS (SELECT FROM dp.publication b, dp.synthetic s WHERE b.relation = _synthetic_hidden.synthetic AND b.kind = 'public' AND s.synthetic = b.relation
                    AND (b.columns IS NULL OR s.columns || COALESCE(s.weight, s.columns[1]) <@ b.columns))
$$;
COMMENT ON FUNCTION dp._synthetic_hidden(oid) IS 'Why a registered synthetic table cannot be read now: no row if it can.';
REVOKE ALL ON FUNCTION dp._synthetic_hidden(oid) FROM PUBLIC;

CREATE FUNCTION dp._synthetics_of(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT COALESCE(jsonb_agg(jsonb_build_object(
    'oid', c.oid::bigint, 'schema', n.nspname, 'name', c.relname,
    'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = ANY (s.columns) AND a.attnum > 0 AND NOT a.attisdropped),
    'weight', s.weight, 'provenance', s.provenance, 'epsilon', trim_scale(s.epsilon)::text, 'delta', trim_scale(s.delta)::text,
    'release', (SELECT f.facts -> 'question' || jsonb_build_object('value', (SELECT v.attname FROM pg_attribute v JOIN pg_attribute w ON w.attrelid = v.attrelid AND w.attnum = v.attnum + 1 WHERE w.attrelid = c.oid AND w.attname = s.weight))
                FROM dp.family_publication p JOIN dp.family f USING (dataset, name) WHERE p.name = c.relname AND dp._is_release(c.oid)),
    'valid', NOT EXISTS (SELECT FROM dp._synthetic_flaws(s.relation, s.synthetic, s.columns, s.weight)) AND NOT EXISTS (SELECT FROM dp._synthetic_hidden(s.synthetic)))
    ORDER BY n.nspname, c.relname), '[]')
  FROM dp.synthetic s JOIN pg_class c ON c.oid = s.synthetic JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE s.relation = _synthetics_of.relation
$$;
COMMENT ON FUNCTION dp._synthetics_of(oid) IS 'The synthetic copies registered for a relation, with the columns that both have, for the engine: public facts only. release: of a published release, its family''s question and the column of its values. valid is false when a column was lost or changed, or the copy cannot be read; dp.check() says why.';
REVOKE ALL ON FUNCTION dp._synthetics_of(oid) FROM PUBLIC;
