CREATE FUNCTION dp._as_type(value text, type oid, what text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 AS $$
#variable_conflict use_variable
DECLARE
  canonical text;
BEGIN
  -- not ::text: the owner of an enum can say what function that cast is. Modifier -1, not NULL: a bare "character" would cut to one.
  EXECUTE format(CASE WHEN type = 'numeric'::regtype THEN 'SELECT trim_scale(%L::%s)::text'
                      WHEN (SELECT t.typtype FROM pg_type t WHERE t.oid = type) = 'e' THEN 'SELECT textin(enum_out(%L::%s))' ELSE 'SELECT %L::%s::text' END,
                 value, format_type(type, -1)) INTO canonical;
  RETURN canonical;
EXCEPTION WHEN data_exception OR invalid_text_representation THEN
  RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s %L is not a value of type %s', what, value, format_type(type, NULL)), HINT = 'Write it as PostgreSQL would accept it for that column.';
END $$;
COMMENT ON FUNCTION dp._as_type(text, oid, text) IS 'A declared value in the canonical text of the column''s type.';
REVOKE ALL ON FUNCTION dp._as_type(text, oid, text) FROM PUBLIC;

CREATE FUNCTION dp._not_above(a text, b text, type oid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' AS $$
#variable_conflict use_variable
DECLARE
  yes boolean;
BEGIN
  EXECUTE format('SELECT %L::%3$s <= %2$L::%3$s', a, b, format_type(type, -1)) INTO yes;
  RETURN yes;
EXCEPTION WHEN undefined_function THEN
  RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('values of type %s have no order', format_type(type, NULL)), HINT = 'Declare a domain, or nothing but the column.';
END $$;
COMMENT ON FUNCTION dp._not_above(text, text, oid) IS 'Whether one declared value is not above another in the order of the column''s type.';
REVOKE ALL ON FUNCTION dp._not_above(text, text, oid) FROM PUBLIC;

CREATE PROCEDURE dp.describe_column(
  relation   regclass,
  "column"   name,
  bounds     text[] DEFAULT NULL,
  resolution text DEFAULT NULL,
  domain     text[] DEFAULT NULL,
  edges      text[] DEFAULT NULL,
  nullable   boolean DEFAULT true,
  max_rows_per_value bigint DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  a pg_attribute;
  type oid;
  kind text := CASE WHEN domain IS NOT NULL THEN 'domain' WHEN edges IS NOT NULL THEN 'edges' WHEN bounds IS NOT NULL THEN 'bounds' ELSE 'opaque' END;
  lower text;
  upper text;
  values_ text[];
  step numeric;
BEGIN
  PERFORM dp._require_owner(relation, 'dp.describe_column');
  IF NOT EXISTS (SELECT FROM dp.relation_policy p WHERE p.relation = describe_column.relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('%s is not protected', relation), HINT = 'CALL dp.protect(relation, dataset) first.';
  END IF;
  SELECT * INTO a FROM pg_attribute t WHERE t.attrelid = relation AND t.attname = "column" AND t.attnum > 0 AND NOT t.attisdropped;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column %s of %s does not exist', COALESCE(quote_ident("column"), 'NULL'), relation), HINT = 'Name an existing column.';
  END IF;
  IF max_rows_per_value < 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'max_rows_per_value is a number of rows', HINT = 'CALL dp.describe_column(''t'', ''place'', max_rows_per_value => 500)';
  END IF;
  IF max_rows_per_value IS NOT NULL AND num_nonnulls(bounds, resolution, domain, edges) = 0 AND nullable THEN
    UPDATE dp.column_policy c SET max_rows_per_value = max_rows_per_value WHERE c.relation = describe_column.relation AND c.attnum = a.attnum;
    IF FOUND THEN
      PERFORM dp._bump_policy();
      RETURN;
    END IF;
  END IF;
  type := (dp._base_type(a.atttypid, a.atttypmod)).base;
  IF num_nonnulls(bounds, domain, edges) > 1 OR (resolution IS NOT NULL AND bounds IS NULL) OR nullable IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'give bounds (with or without a resolution), or a domain, or edges', HINT = 'CALL dp.describe_column(''t'', ''age'', bounds => ''{0,120}'', resolution => ''1'')';
  END IF;
  IF kind <> 'opaque' AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = type AND (t.typtype = 'e' OR (t.typtype = 'b' AND t.typnamespace = 'pg_catalog'::regnamespace))) THEN
    -- reading a value of a composite type, or of an array of a domain, runs its owner's CHECK functions as dp_owner
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('columns of type %s have no bounds, domain or edges', format_type(type, NULL)), HINT = 'Only built-in types, enums and domains over them do. Declare nothing but the column.';
  END IF;
  IF bounds IS NOT NULL THEN
    IF cardinality(bounds) <> 2 OR array_position(bounds, NULL) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'bounds are two values', HINT = 'bounds => ''{0,120}''';
    END IF;
    lower := dp._as_type(bounds[1], type, 'bound');
    upper := dp._as_type(bounds[2], type, 'bound');
    IF lower ~* '^-?(nan|infinity)$' OR upper ~* '^-?(nan|infinity)$' OR NOT dp._not_above(lower, upper, type) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'bounds must be finite and in order', HINT = 'bounds => ''{lower,upper}''';
    END IF;
    IF resolution IS NOT NULL THEN
      IF type IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype) THEN
        resolution := dp._as_type(resolution, 'interval'::regtype, 'resolution');
        step := extract(epoch FROM resolution::interval);
        IF type = 'time'::regtype AND step >= 86400 THEN
          RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'the resolution of a time must be less than a day', HINT = 'resolution => ''1 hour'', or ''15 minutes''';
        END IF;
      ELSE
        resolution := dp._as_type(resolution, 'numeric'::regtype, 'resolution');
        step := resolution::numeric;
      END IF;
      IF step = 'NaN' OR step <= 0 OR step = 'Infinity' THEN
        RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'resolution must be above 0', HINT = 'resolution => ''1'', or ''0.01'' for cents, or ''1 day''';
      END IF;
    END IF;
  END IF;
  IF domain IS NOT NULL OR edges IS NOT NULL THEN
    SELECT array_agg(dp._as_type(v, type, CASE kind WHEN 'domain' THEN 'domain value' ELSE 'edge' END) ORDER BY i) INTO values_
    FROM unnest(COALESCE(domain, edges)) WITH ORDINALITY u(v, i);
    IF cardinality(values_) IS NULL OR array_position(values_, NULL) IS NOT NULL OR (SELECT count(DISTINCT v) FROM unnest(values_) v) <> cardinality(values_) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = format('a %s is a list of distinct values without NULL', kind), HINT = 'Say nullable => true for the group of NULLs.';
    END IF;
    IF edges IS NOT NULL AND EXISTS (SELECT FROM generate_subscripts(values_, 1) i WHERE i > 1 AND NOT dp._not_above(values_[i - 1], values_[i], type)) THEN
      RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'edges must ascend', HINT = 'edges => ''{0,18,65,120}''';
    END IF;
  END IF;
  INSERT INTO dp.column_policy (relation, attnum, attname, kind, lower, upper, resolution, domain, edges, nullable, max_rows_per_value)
  VALUES (relation, a.attnum, a.attname, kind, lower, upper, resolution, CASE kind WHEN 'domain' THEN values_ END, CASE kind WHEN 'edges' THEN values_ END, nullable, max_rows_per_value)
  ON CONFLICT ON CONSTRAINT column_policy_pkey DO UPDATE SET attname = EXCLUDED.attname, kind = EXCLUDED.kind, lower = EXCLUDED.lower, upper = EXCLUDED.upper,
    resolution = EXCLUDED.resolution, domain = EXCLUDED.domain, edges = EXCLUDED.edges, nullable = EXCLUDED.nullable, max_rows_per_value = EXCLUDED.max_rows_per_value;
  PERFORM dp._bump_policy();
END $$;
COMMENT ON PROCEDURE dp.describe_column(regclass, name, text[], text, text[], text[], boolean, bigint) IS
  'Declares what is publicly known of a column: bounds (with a resolution), a complete domain, or bin edges; none of them: usable in predicates only. nullable => false says that NULL is no group. max_rows_per_value: so many rows share a value at most, which bounds the size of joins on it; given alone, it leaves what else was declared. Declared, never read off the data.';
REVOKE ALL ON PROCEDURE dp.describe_column(regclass, name, text[], text, text[], text[], boolean, bigint) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.describe_column(regclass, name, text[], text, text[], text[], boolean, bigint) TO dp_admin;
