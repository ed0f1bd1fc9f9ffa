CREATE FUNCTION dp._disk(OUT inode numeric, OUT ctime bigint, OUT file_system text)
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
from pg_epsilon.engine import incarnation
return incarnation.data_directory()
$$;
COMMENT ON FUNCTION dp._disk() IS 'Inode and ctime of the data directory''s PG_VERSION by os.stat, NULL on file systems that make them up, and the type of the file system.';
REVOKE ALL ON FUNCTION dp._disk() FROM PUBLIC;

CREATE FUNCTION dp._place(OUT system_identifier bigint, OUT timeline integer, OUT database_oid oid, OUT inode numeric, OUT ctime bigint, OUT file_system text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT s.system_identifier, b.oid, k.inode, k.ctime, k.file_system INTO system_identifier, database_oid, inode, ctime, file_system
  FROM pg_control_system() s, pg_database b, dp._disk() k WHERE b.datname = current_database();
  -- not the control file's: its timeline moves when the first checkpoint after a promotion ends, minutes late
  IF NOT pg_is_in_recovery() THEN
    timeline := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;
  END IF;
END $$;
COMMENT ON FUNCTION dp._place() IS 'Where this ledger is now, read anew at every call. timeline is NULL in recovery: nothing is written then.';
REVOKE ALL ON FUNCTION dp._place() FROM PUBLIC;

CREATE FUNCTION dp._clock_of(nanoseconds bigint) RETURNS text
LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_char(timestamp '1970-01-01' + nanoseconds / 1000000000 * interval '1 second', 'YYYY-MM-DD HH24:MI:SS.') || lpad((nanoseconds % 1000000000)::text, 9, '0')
$$;
COMMENT ON FUNCTION dp._clock_of(bigint) IS 'Nanoseconds since 1970 as a time, UTC, all nine digits.';
REVOKE ALL ON FUNCTION dp._clock_of(bigint) FROM PUBLIC;

CREATE FUNCTION dp._elsewhere(incarnation uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  was dp.incarnation;
  here record;
BEGIN
  SELECT * INTO was FROM dp.incarnation i;
  IF was.id IS DISTINCT FROM incarnation THEN
    RETURN format('its incarnation %s is not this database''s, %s', left(incarnation::text, 8), COALESCE(left(was.id::text, 8), 'none'));
  END IF;
  BEGIN
    SELECT * INTO here FROM dp._place();
  EXCEPTION WHEN external_routine_exception THEN
    RETURN 'the engine cannot be loaded to see where it is';
  END;
  IF here.timeline IS NULL THEN
    RETURN 'the server is in recovery';
  END IF;
  RETURN NULLIF(concat_ws(', ',
    CASE WHEN was.system_identifier <> here.system_identifier THEN format('system identifier %s, now %s', was.system_identifier, here.system_identifier) END,
    CASE WHEN was.timeline <> here.timeline THEN format('timeline %s, now %s', was.timeline, here.timeline) END,
    CASE WHEN was.database_oid <> here.database_oid THEN format('database %s, now %s', was.database_oid, here.database_oid) END,
    CASE WHEN was.inode IS DISTINCT FROM here.inode THEN format('inode of PG_VERSION %s, now %s', COALESCE(was.inode::text, 'not used'), COALESCE(here.inode::text, 'not used')) END,
    CASE WHEN was.ctime IS DISTINCT FROM here.ctime AND was.inode IS NOT NULL AND here.inode IS NOT NULL
         THEN format('ctime of PG_VERSION %s, now %s', dp._clock_of(was.ctime), dp._clock_of(here.ctime)) END), '');
END $$;
COMMENT ON FUNCTION dp._elsewhere(uuid) IS 'What differs, old and now, between the place where a dataset''s ledger was confirmed and where it is; NULL where nothing does. Read anew at every call (composition.md 12).';
REVOKE ALL ON FUNCTION dp._elsewhere(uuid) FROM PUBLIC;
