CREATE FUNCTION dp._extension_objects() RETURNS TABLE (extension name, kind text, signature text, open_to_public text[], oid oid, closed boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  -- whatever a version of TimescaleDB owns may tell about rows until it stands here: what depends on its arguments alone
  WITH owned AS (
    SELECT e.extname, d.classid, d.objid FROM pg_extension e
    JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    WHERE e.extname NOT IN ('pg_epsilon', 'plpgsql', 'plpython3u', 'postgres_fdw')
  )
  SELECT o.extname, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, x.granted, c.oid, o.extname = 'timescaledb'
  FROM owned o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  CROSS JOIN LATERAL (SELECT array_agg(a.privilege_type ORDER BY a.privilege_type) AS granted FROM aclexplode(c.relacl) a WHERE a.grantee = 0) x
  UNION ALL
  SELECT o.extname, 'ROUTINE', p.oid::regprocedure::text, x.granted, p.oid, o.extname = 'timescaledb'
  FROM owned o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
  CROSS JOIN LATERAL (SELECT array_agg(a.privilege_type) AS granted FROM aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0) x
  WHERE CASE WHEN o.extname = 'timescaledb' THEN p.proname !~ ('^(time_bucket(_ng|_gapfill)?|locf|interpolate|first|last|histogram|get_partition_(hash|for_key)'
        '|interval_to_usec|to_(date|interval|timestamp|timestamp_without_timezone|unix_microseconds)|(bookend|first|last|hist)_[a-z]+func|(compressed_data|dimension_info)_(in|out|recv|send))$')
      ELSE p.provolatile <> 'i' AND p.prorettype NOT IN ('internal'::regtype, 'language_handler'::regtype, 'trigger'::regtype, 'event_trigger'::regtype, 'fdw_handler'::regtype, 'index_am_handler'::regtype,
        'table_am_handler'::regtype, 'tsm_handler'::regtype) AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[])
        AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend)) END
$$;
COMMENT ON FUNCTION dp._extension_objects() IS
  'Relations of other extensions, and their functions that are not known to depend on their arguments alone; closed: dp.harden_catalog() takes them from PUBLIC, because TimescaleDB''s tell about rows.';
REVOKE ALL ON FUNCTION dp._extension_objects() FROM PUBLIC;
