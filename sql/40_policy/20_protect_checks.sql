CREATE FUNCTION dp._check_unit(relation regclass, dataset text, unit_column name, unit_path name[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  unit text;
  source regclass := relation;
  target regclass;
  i integer;
BEGIN
  SELECT d.unit INTO unit FROM dp.dataset d WHERE d.name = _check_unit.dataset;
  IF unit = 'row' THEN
    IF unit_column IS NOT NULL OR unit_path IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L has row units: no unit_column or unit_path', dataset), HINT = 'Use a dataset with unit => ''user'', or leave them out.';
    END IF;
    IF EXISTS (SELECT FROM pg_constraint k JOIN dp.relation_policy q ON q.relation IN (k.conrelid, k.confrelid) AND q.relation <> _check_unit.relation
               WHERE k.contype = 'f' AND _check_unit.relation IN (k.conrelid, k.confrelid) AND q.dataset = _check_unit.dataset) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is joined by a foreign key to another protected relation of dataset %L, whose unit is a row', relation, dataset),
        HINT = 'Rows of joined relations describe the same people: use a dataset with unit => ''user'' (composition.md 1.2).';
    END IF;
    RETURN;
  END IF;
  IF num_nonnulls(unit_column, unit_path) <> 1 OR cardinality(unit_path) = 0 OR array_position(unit_path, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('dataset %L has user units: give unit_column or unit_path', dataset),
      HINT = 'unit_column => ''customer_id'', or unit_path => ''{order_id,customer_id}'' through the foreign key order_id.';
  END IF;
  FOR i IN 1 .. COALESCE(cardinality(unit_path), 1) LOOP
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attname = COALESCE(unit_path[i], unit_column) AND a.attnum > 0 AND NOT a.attisdropped) THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column %I of %s does not exist', COALESCE(unit_path[i], unit_column), source), HINT = 'Name an existing column.';
    END IF;
    EXIT WHEN unit_path IS NULL OR i = cardinality(unit_path);
    SELECT k.confrelid INTO target FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
    WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = source AND a.attname = unit_path[i] ORDER BY k.oid LIMIT 1;
    IF (SELECT count(DISTINCT k.confrelid) FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
        WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = source AND a.attname = unit_path[i]) > 1 THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('column %I of %s has foreign keys to several relations', unit_path[i], source),
        HINT = 'A step of unit_path leads to one relation: drop the other foreign key, or use another column.';
    END IF;
    IF target IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('column %I of %s has no validated foreign key of its own', unit_path[i], source),
        HINT = 'Every step of unit_path but the last must be a single-column, validated foreign key.';
    END IF;
    IF NOT EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = target AND p.dataset = _check_unit.dataset) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s, a step of unit_path, is not protected in dataset %L', target, dataset), HINT = format('CALL dp.protect(%L, %L, ...) first.', target, dataset);
    END IF;
    -- who owns a step decides with it about every row that leads through it
    IF NOT EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = target AND COALESCE(p.unit_path, ARRAY[p.unit_column]) = unit_path[i + 1:] AND p.other_units IS NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s, a step of unit_path, has another unit than the rest of the path, or several', target),
        HINT = format('Its unit is %s: a path through it ends with that.', (SELECT COALESCE(p.unit_path, ARRAY[p.unit_column])::text FROM dp.relation_policy p WHERE p.relation = target));
    END IF;
    source := target;
  END LOOP;
  BEGIN
    EXECUTE format('SELECT FROM (SELECT NULL::%s AS u) s GROUP BY u',
                   (SELECT format_type(a.atttypid, NULL) FROM pg_attribute a WHERE a.attrelid = source AND a.attname = COALESCE(unit_path[cardinality(unit_path)], unit_column)));
  EXCEPTION WHEN undefined_function THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('the unit key of %s has a type without equality', relation), HINT = 'A privacy unit is told from another by its key: use a column of a type that can be compared.';
  END;
END $$;
COMMENT ON FUNCTION dp._check_unit(regclass, text, name, name[]) IS 'Checks that every row of a relation reaches its privacy unit (composition.md 1.2, 1.3).';
REVOKE ALL ON FUNCTION dp._check_unit(regclass, text, name, name[]) FROM PUBLIC;

CREATE FUNCTION dp._check_other_units(relation regclass, unit_column name, unit_path name[], other_units name[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  first_ name := COALESCE(unit_column, unit_path[1]);
  item name;
BEGIN
  IF other_units IS NULL THEN
    RETURN;
  END IF;
  IF first_ IS NULL OR cardinality(other_units) NOT BETWEEN 1 AND 3 OR array_position(other_units, NULL) IS NOT NULL
     OR (SELECT count(DISTINCT u) FROM unnest(other_units || first_) u) <= cardinality(other_units) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'other_units names one to three further columns that hold keys of units', HINT = 'For a table of edges: unit_path => ''{from_id,id}'', other_units => ''{to_id}''.';
  END IF;
  FOREACH item IN ARRAY other_units LOOP
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = item AND a.attnum > 0 AND NOT a.attisdropped) THEN
      RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column %I of %s does not exist', item, relation), HINT = 'Name an existing column.';
    END IF;
    -- the same key must name the same unit: the same type and collation as the first, and the same foreign key if that has one
    IF NOT EXISTS (SELECT FROM pg_attribute a, pg_attribute b WHERE a.attrelid = relation AND a.attname = first_ AND b.attrelid = relation AND b.attname = item
                   AND (dp._base_type(a.atttypid, a.atttypmod)).base = (dp._base_type(b.atttypid, b.atttypmod)).base AND a.attcollation = b.attcollation)
       OR EXISTS (SELECT FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                  WHERE k.contype = 'f' AND k.conparentid = 0 AND k.convalidated AND k.conrelid = relation AND a.attname = first_ AND unit_path IS NOT NULL
                    AND NOT EXISTS (SELECT FROM pg_constraint o JOIN pg_attribute b ON b.attrelid = o.conrelid AND o.conkey = ARRAY[b.attnum]
                                    WHERE o.contype = 'f' AND o.convalidated AND o.conrelid = relation AND b.attname = item
                                      AND o.confrelid = k.confrelid AND o.confkey = k.confkey)) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('column %I of %s does not hold the same keys of units as %I', item, relation, first_),
        HINT = 'It needs the same type, and the same foreign key if the first column has one.';
    END IF;
  END LOOP;
  IF cardinality(unit_path) > 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'other_units go with a unit_column, or with a unit_path of one step', HINT = 'Each of them must hold the key of a unit, or reference the table of units.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._check_other_units(regclass, name, name[], name[]) IS 'Checks that further unit columns hold keys of the same units as the first one.';
REVOKE ALL ON FUNCTION dp._check_other_units(regclass, name, name[], name[]) FROM PUBLIC;

CREATE FUNCTION dp._check_grid(relation regclass, dataset text, partition_by name, grid jsonb) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._engine('check_grid', jsonb_build_object('relation', relation::text, 'dataset', dataset, 'partition_by', partition_by, 'grid', grid));
END $$;
COMMENT ON FUNCTION dp._check_grid(regclass, text, name, jsonb) IS 'Checks a declared partition grid: {"origin": ..., "width": ...} or {"list": [...]} over a column of a row-unit relation.';
REVOKE ALL ON FUNCTION dp._check_grid(regclass, text, name, jsonb) FROM PUBLIC;
