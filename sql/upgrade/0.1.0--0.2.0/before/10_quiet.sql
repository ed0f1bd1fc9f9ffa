-- Nobody is between a charge and its answer, and nothing is locked for long, while the catalog changes.
-- 1. dp.account: no charge begins; one that has just committed has 0.2 s to begin its answer.
-- 2. dp.ledger: all answers under way have ended. Briefly, then anew: an answer that gives back needs dp.account.
-- 3. all other tables. A charge that waits for 1 meanwhile has read some of them: it, and not the upgrade, is ended by
--    the deadlock detector, with DP006 and uncharged.
DO $$
DECLARE
  until timestamptz := clock_timestamp() + interval '10 minutes';
  patience text := current_setting('lock_timeout');
  t regclass;
BEGIN
  PERFORM set_config('deadlock_timeout', '1min', true);
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '600ms', true);
      LOCK TABLE dp.account IN EXCLUSIVE MODE;
      PERFORM pg_sleep(0.2);
      LOCK TABLE dp.ledger IN ACCESS EXCLUSIVE MODE;
      PERFORM set_config('lock_timeout', '3s', true);
      LOCK TABLE dp.policy_state IN ACCESS EXCLUSIVE MODE;
      FOR t IN SELECT c.oid FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
               JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
               WHERE e.extname = 'pg_epsilon' AND c.relkind = 'r' ORDER BY c.oid LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', t);
      END LOOP;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > until THEN
        RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'pg_epsilon''s tables are in use',
          HINT = 'End the transactions that hold them (pg_locks, pg_stat_activity), stop the proxy, then repeat ALTER EXTENSION pg_epsilon UPDATE.';
      END IF;
    END;
    PERFORM pg_sleep(0.1 + random() * 0.2);
  END LOOP;
  PERFORM set_config('lock_timeout', patience, true);
END $$;
-- Sessions of the ledger channel have the older library loaded. Their callers open new ones and repeat the step.
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.datname = current_database() AND a.usename ~ '^dp_channel(_[0-9]+)?$';
