CREATE PROCEDURE dp.seal_partition(relation regclass, partition text, scale numeric DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._hold_writers(relation, 'dp.seal_partition');
  PERFORM dp._behind_barrier(relation, 'dp.seal_partition', 'seal', jsonb_build_object('partition', partition, 'scale', scale::text));
  EXECUTE dp._seal_trigger(relation);
END $$;
COMMENT ON PROCEDURE dp.seal_partition(regclass, text, numeric) IS
  'Says that all rows of a partition (the one that this value of the key is in) are loaded: it is counted into the bins of the Turbo view, and can be asked about. Waits for whoever is writing rows, and holds writers back meanwhile. scale: its public number of rows, if not the view''s.';
REVOKE ALL ON PROCEDURE dp.seal_partition(regclass, text, numeric) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.seal_partition(regclass, text, numeric) TO dp_admin;

CREATE PROCEDURE dp.seal_partitions(relation regclass, older_than interval DEFAULT NULL, until text DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  kind oid;
BEGIN
  PERFORM dp._may_seal(relation, 'dp.seal_partitions');
  kind := dp._partition_type(relation);
  IF num_nonnulls(older_than, until) <> 1 OR (older_than IS NOT NULL AND (older_than < interval '0' OR kind NOT IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype))) THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'give older_than, for a partition key that is a time, or until', HINT = CASE WHEN kind IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) THEN 'CALL dp.seal_partitions(relation, older_than => ''1 day''), from any scheduler.'
                  ELSE 'CALL dp.seal_partitions(relation, until => value), or dp.seal_partition(relation, value) for partitions of a list.' END;
  END IF;
  -- by the clock alone: which rows came, or did not, moves nothing (composition.md 6.2)
  until := COALESCE(until, (clock_timestamp() - older_than)::timestamp::text);
  -- a scheduler that finds nothing to do keeps no writer waiting
  IF dp._behind_barrier(relation, 'dp.seal_partitions', 'due', jsonb_build_object('until', until)) <> to_jsonb(0) THEN
    PERFORM dp._hold_writers(relation, 'dp.seal_partitions');
    PERFORM dp._behind_barrier(relation, 'dp.seal_partitions', 'seal_until', jsonb_build_object('until', until));
    EXECUTE dp._seal_trigger(relation);
  END IF;
END $$;
COMMENT ON PROCEDURE dp.seal_partitions(regclass, interval, text) IS
  'Seals every partition since the origin of the grid that ended before now minus older_than (or at a value of the key), but those that were reopened. A job for any scheduler: it goes by the clock, never by rows.';
REVOKE ALL ON PROCEDURE dp.seal_partitions(regclass, interval, text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.seal_partitions(regclass, interval, text) TO dp_admin;

CREATE PROCEDURE dp.reopen_partition(relation regclass, partition text)
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._hold_writers(relation, 'dp.reopen_partition');
  PERFORM dp._behind_barrier(relation, 'dp.reopen_partition', 'reopen', jsonb_build_object('partition', partition));
  EXECUTE dp._seal_trigger(relation);
END $$;
COMMENT ON PROCEDURE dp.reopen_partition(regclass, text) IS
  'Takes the seal off a partition, to load late rows or to have deleted ones noticed: what was cached of it is served no more. Its account stays as it is. Seal it again afterwards.';
REVOKE ALL ON PROCEDURE dp.reopen_partition(regclass, text) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dp.reopen_partition(regclass, text) TO dp_admin;
