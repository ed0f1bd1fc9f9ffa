CREATE FUNCTION dp._leaky_functions() RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.oid FROM pg_proc p
  WHERE p.pronamespace = 'pg_catalog'::regnamespace
    AND (p.proname ~ '^pg_stat_(get_|have_stats$)' OR p.proname ~ '^(lo_|loread|lowrite)' OR p.proname ~ '^pg_(relation|table|total_relation|indexes|database|tablespace)_size$'
      OR p.proname IN ('pg_lock_status', 'pg_blocking_pids', 'pg_safe_snapshot_blocking_pids', 'pg_prepared_xact', 'pg_export_snapshot', 'pg_get_replication_slots',
        'pg_current_wal_lsn', 'pg_current_wal_insert_lsn', 'pg_current_wal_flush_lsn', 'pg_last_wal_receive_lsn', 'pg_last_wal_replay_lsn', 'pg_relation_filepath', 'pg_relation_filenode', 'pg_filenode_relation', 'pg_config',
        'pg_terminate_backend', 'pg_cancel_backend', 'pg_control_system', 'pg_control_checkpoint', 'pg_control_recovery', 'pg_control_init',
        'pg_xact_commit_timestamp', 'pg_last_committed_xact', 'pg_notification_queue_usage', 'pg_show_replication_origin_status'))
$$;
COMMENT ON FUNCTION dp._leaky_functions() IS 'Built-in functions that tell something about rows (sizes, counters, activity) to anyone: closed by dp.harden_catalog, verified by dp.check (facade-and-channel.md §2.6, §5).';
REVOKE ALL ON FUNCTION dp._leaky_functions() FROM PUBLIC;
