CREATE FUNCTION dp._writers_of(relation regclass) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE whole AS (
    SELECT relation::oid AS part UNION SELECT i.inhrelid FROM whole JOIN pg_inherits i ON i.inhparent = whole.part
  )
  SELECT string_agg(DISTINCT COALESCE(format('pid %s (%s%s)', l.pid, COALESCE(a.usename, a.backend_type), ', since ' || a.xact_start::timestamptz(0)), 'a prepared transaction'), ', ')
  FROM whole w JOIN pg_locks l ON l.locktype = 'relation' AND l.relation = w.part AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()) AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
$$;
COMMENT ON FUNCTION dp._writers_of(regclass) IS 'Who holds a lock on a relation, or on a part of it, that a writer takes: for the owner whose seal waits for them. NULL: nobody any more.';
REVOKE ALL ON FUNCTION dp._writers_of(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._writers_of(regclass) TO dp_admin;

CREATE FUNCTION dp._may_seal(relation regclass, what text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._require_owner(relation, what);
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = format('%s in a transaction that is %s would not see what writers have just committed', what, current_setting('transaction_isolation')),
      HINT = 'Call it by itself, or after BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
END $$;
COMMENT ON FUNCTION dp._may_seal(regclass, text) IS 'Refuses whoever does not own the relation, and transactions whose snapshot is older than the barrier that dp._hold_writers makes.';
REVOKE ALL ON FUNCTION dp._may_seal(regclass, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._may_seal(regclass, text) TO dp_admin;

CREATE FUNCTION dp._hold_writers(relation regclass, what text, readers boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  patience text := current_setting('lock_timeout');
  until timestamptz := clock_timestamp() + CASE patience WHEN '0' THEN interval '1 minute' ELSE patience::interval END;
  attempt interval := interval '50 ms';
BEGIN
  PERFORM dp._may_seal(relation, what);
  LOOP
    -- whoever writes next waits behind a waiting lock: so the attempts are short, but one is longer than deadlock_timeout, at which autovacuum steps aside
    attempt := least(attempt * 2, interval '3 s', greatest(until - clock_timestamp(), interval '1 ms'));
    BEGIN
      PERFORM set_config('lock_timeout', ceil(1000 * extract(epoch FROM attempt))::text, true);
      EXECUTE format('LOCK TABLE %s IN %s MODE', relation, CASE WHEN readers THEN 'ACCESS EXCLUSIVE' ELSE 'SHARE ROW EXCLUSIVE' END);
      PERFORM set_config('lock_timeout', patience, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() >= until AND readers AND dp._writers_of(relation) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = format('%s: %s is still being read by others', what, relation),
          HINT = 'What is dropped may not be in use: call it again later. SET lock_timeout says how long it waits, a minute if that is 0.';
      ELSIF clock_timestamp() >= until THEN
        RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = format('%s: rows of %s are still being written by %s', what, relation, COALESCE(dp._writers_of(relation), 'others')),
          HINT = 'A partition is sealed when nobody is adding rows: let them commit, or SELECT pg_terminate_backend(pid), and call it again. SET lock_timeout says how long it waits, a minute if that is 0.';
      END IF;
    END;
    PERFORM pg_sleep(extract(epoch FROM least(attempt, until - clock_timestamp())));
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._hold_writers(regclass, text, boolean) IS 'Waits until nobody has uncommitted rows of a relation, and keeps writers out until the end of this transaction: the barrier behind which a partition is counted and sealed (turbo.md 6.12). readers: those too, where something is to be dropped. SQLSTATE 55P03 after lock_timeout, with who is still writing. As the caller: only the owner may lock it.';
REVOKE ALL ON FUNCTION dp._hold_writers(regclass, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._hold_writers(regclass, text, boolean) TO dp_admin;

CREATE FUNCTION dp._behind_barrier(relation regclass, what text, call text, arguments jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dp._may_seal(relation, what);
  IF call NOT IN ('due', 'seal', 'seal_until', 'reopen', 'boundary', 'retain') THEN
    RAISE EXCEPTION USING ERRCODE = 'DP005', MESSAGE = 'not a call about a partition', HINT = 'dp.seal_partition, dp.seal_partitions, dp.reopen_partition, dp.retain';
  END IF;
  IF call NOT IN ('due', 'boundary') AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'relation' AND l.pid = pg_backend_pid() AND l.relation = _behind_barrier.relation AND l.granted
      AND l.mode IN ('ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) THEN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('rows of %s can be added meanwhile', relation), HINT = format('CALL %s(...) locks it first.', what);
  END IF;
  RETURN dp._turbo(call, jsonb_object_agg(a.key, CASE WHEN a.key IN ('partition', 'until') THEN to_jsonb(dp._partition_value(relation, a.value #>> '{}')) ELSE a.value END) || dp._relation_name(relation))
    FROM jsonb_each(arguments) a;
END $$;
COMMENT ON FUNCTION dp._behind_barrier(regclass, text, text, jsonb) IS 'What the engine does to partitions, for an owner who holds back writers; `due` and `boundary` only look.';
REVOKE ALL ON FUNCTION dp._behind_barrier(regclass, text, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._behind_barrier(regclass, text, text, jsonb) TO dp_admin;

CREATE FUNCTION dp._seal_trigger(relation regclass) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' AS $$
  WITH view AS (
    SELECT v.view, p.partition_by AS key, format_type(dp._partition_type(v.relation), NULL) AS kind
    FROM dp.turbo_view v JOIN dp.relation_policy p ON p.relation = v.relation WHERE v.relation = _seal_trigger.relation AND v.partitioned
  ), sealed AS (
    SELECT p.part, p.lower, p.upper, p.part - row_number() OVER (ORDER BY p.part) AS run FROM view v JOIN dp.turbo_partition p ON p.view = v.view WHERE p.sealed
  ), runs AS (
    SELECT min(s.part) AS first, (array_agg(s.lower ORDER BY s.part))[1] AS lower, (array_agg(s.upper ORDER BY s.part DESC))[1] AS upper FROM sealed s WHERE s.upper IS NOT NULL GROUP BY s.run
  ), ends AS (
    SELECT (array_agg(r.lower ORDER BY r.first))[1] AS lower, (array_agg(r.upper ORDER BY r.first DESC))[1] AS upper FROM runs r
  ), holes AS (
    SELECT lag(r.upper) OVER (ORDER BY r.first) AS lower, r.lower AS upper, r.first FROM runs r
  )
  -- constants, which the executor compares without a call; new rows of a stream are above them all. A condition is read anew by each statement:
  -- with many holes it names the ends only, and the function says which rows are late
  SELECT format('CREATE OR REPLACE TRIGGER "~dp_sealed" AFTER INSERT ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION dp._sealed_partition(%L, %L, %L)', relation,
    COALESCE((SELECT format('NEW.%I = ANY (%L::%s[])', v.key, array_agg(s.lower ORDER BY s.part)::text, v.kind) FROM sealed s WHERE s.upper IS NULL HAVING count(*) > 0),
             CASE WHEN e.upper IS NOT NULL THEN format('NEW.%1$I < %2$L::%4$s AND NEW.%1$I >= %3$L::%4$s', v.key, e.upper, e.lower, v.kind) END
             || COALESCE((SELECT string_agg(format(' AND (NEW.%1$I < %2$L::%4$s OR NEW.%1$I >= %3$L::%4$s)', v.key, h.lower, h.upper, v.kind), '' ORDER BY h.first)
                          FROM holes h WHERE h.lower IS NOT NULL HAVING count(*) <= 16), ''),
             'false'), v.view, v.key, v.kind)
  FROM view v, ends e
$$;
COMMENT ON FUNCTION dp._seal_trigger(regclass) IS 'The statement that makes, for its owner, the trigger on rows of partitions that are sealed now.';
REVOKE ALL ON FUNCTION dp._seal_trigger(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._seal_trigger(regclass) TO dp_admin;
