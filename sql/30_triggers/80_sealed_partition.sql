CREATE FUNCTION dp._sealed_partition() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' AS $$
DECLARE
  key text;
  kind text := TG_ARGV[2];
  until text;
  any_sealed boolean;
  late boolean;
BEGIN
  -- by the type's own output: to_jsonb, or a cast to text, would run a function of the table's owner with our rights
  EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN format(''%%s'', ($1).%1$I) END', TG_ARGV[1]) INTO key USING NEW;
  SELECT v.sealed_until, EXISTS (SELECT FROM dp.turbo_partition p WHERE p.view = v.view AND p.sealed) INTO until, any_sealed FROM dp.turbo_view v WHERE v.view = TG_ARGV[0]::bigint;
  IF any_sealed IS NOT TRUE OR key IS NULL THEN
    RETURN NEW;
  END IF;
  -- a stream's new rows are above all that was sealed: one comparison, planned once
  IF until IS NOT NULL THEN
    late := CASE kind WHEN 'date' THEN key::date < until::date WHEN 'timestamp without time zone' THEN key::timestamp < until::timestamp
                      WHEN 'timestamp with time zone' THEN key::timestamptz < until::timestamptz ELSE key::bigint < until::bigint END;
    IF NOT late THEN
      RETURN NEW;
    END IF;
  END IF;
  -- whoever may create triggers chose the arguments: the type is what the catalog says, and its casts are PostgreSQL's
  SELECT CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN format_type(t.oid, NULL) ELSE 'text' END INTO kind
  FROM dp.turbo_view v JOIN pg_type t ON t.oid = dp._partition_type(v.relation) WHERE v.view = TG_ARGV[0]::bigint;
  EXECUTE format('SELECT EXISTS (SELECT FROM dp.turbo_partition p WHERE p.view = $1 AND p.sealed AND %1$L::%2$s >= p.lower::%2$s AND (%1$L::%2$s < p.upper::%2$s OR p.upper IS NULL AND %1$L::%2$s = p.lower::%2$s))', key, kind)
    INTO late USING TG_ARGV[0]::bigint;
  IF late THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('the partition of %I = %L is sealed', TG_ARGV[1], key),
      HINT = 'CALL dp.reopen_partition(relation, value), load the row, and seal it again; or load the row under a later key.';
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION dp._sealed_partition() IS 'Rejects rows that come after their partition was sealed: their counts were published about (turbo.md 6.12).';
REVOKE ALL ON FUNCTION dp._sealed_partition() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._sealed_partition() TO dp_admin;
