DO $$
BEGIN
  INSERT INTO dp.incarnation (system_identifier, timeline, database_oid, inode, ctime)
  SELECT p.system_identifier, p.timeline, p.database_oid, p.inode, p.ctime FROM dp._place() p ON CONFLICT DO NOTHING;
EXCEPTION WHEN external_routine_exception THEN
  RAISE EXCEPTION 'the server cannot load the Python package pg_epsilon'
    USING ERRCODE = 'DP006', HINT = 'Install it for the Python that plpython3u uses, or name its folder in the PYTHONPATH of the server''s environment, and restart the server.';
END $$;
