CREATE FUNCTION dp._hello() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
                   (SELECT oid FROM pg_database WHERE datname = current_database()),
                   extract(epoch FROM pg_postmaster_start_time()), pg_is_in_recovery())
$$;
COMMENT ON FUNCTION dp._hello() IS 'Which server and database this is. Both ends of the channel must say the same, else a clone would charge another database''s ledger.';
REVOKE ALL ON FUNCTION dp._hello() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._hello() TO dp_channel;
