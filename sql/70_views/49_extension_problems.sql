CREATE FUNCTION dp._extension_problems() RETURNS TABLE (severity text, object text, problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH analysts AS (
    SELECT r.oid FROM pg_roles r WHERE NOT r.rolsuper AND pg_has_role(r.oid, 'dp_analyst', 'MEMBER')
  ), usable AS (
    SELECT o.extension, o.closed, o.kind, o.signature FROM dp._extension_objects() o
    WHERE EXISTS (SELECT FROM analysts a WHERE CASE o.kind WHEN 'ROUTINE' THEN has_function_privilege(a.oid, o.oid, 'EXECUTE') WHEN 'SEQUENCE' THEN has_sequence_privilege(a.oid, o.oid, 'SELECT')
      ELSE has_any_column_privilege(a.oid, o.oid, 'SELECT') END)
  )
  SELECT CASE WHEN u.closed THEN 'error' ELSE 'warning' END, format('extension %s', u.extension),
         format('analysts may use %s of its %s: %s%s', count(*), CASE WHEN bool_or(u.kind = 'ROUTINE') THEN 'functions' ELSE 'relations' END,
                array_to_string((array_agg(u.signature ORDER BY u.signature))[:10], ', '), CASE WHEN count(*) > 10 THEN ', ...' ELSE '' END),
         CASE WHEN u.closed THEN 'A superuser runs CALL dp.harden_catalog().' ELSE 'REVOKE them from PUBLIC, and grant them to the roles that need them, unless they tell nothing about rows.' END
  FROM usable u GROUP BY u.extension, u.closed, u.kind = 'ROUTINE'
$$;
COMMENT ON FUNCTION dp._extension_problems() IS 'What other extensions own and analysts may use: TimescaleDB''s tells about rows, of others somebody has to know.';
REVOKE ALL ON FUNCTION dp._extension_problems() FROM PUBLIC;
