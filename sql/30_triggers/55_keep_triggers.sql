CREATE FUNCTION dp._wrong_trigger(trigger oid, tag text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH t AS (SELECT * FROM pg_trigger g WHERE g.oid = trigger),
       -- a hypertable's chunk must have what the hypertable has, word by word
       whole AS (SELECT i.inhparent AS oid FROM t JOIN pg_inherits i ON i.inhrelid = t.tgrelid WHERE dp._is_chunk(t.tgrelid)),
       ours(name, function, kind) AS (VALUES
         ('~dp_partition_key', 'dp._partition_key_immutable()'::regprocedure, 19), ('~dp_sealed', 'dp._sealed_partition()'::regprocedure, 5), ('~dp_sealed_replica', 'dp._sealed_partition()'::regprocedure, 5)),
       policy AS (
         SELECT p.relation, EXISTS (SELECT FROM dp.turbo_view v WHERE v.relation = p.relation AND v.partitioned) AS seals FROM t, dp.relation_policy p JOIN dp.dataset d ON d.name = p.dataset
         WHERE (p.relation = t.tgrelid OR p.relation IN (SELECT dp._protected_kin(t.tgrelid))) AND p.partition_by IS NOT NULL
           -- a dump is being restored
           AND NOT dp._frozen(d.incarnation)
       )
  SELECT CASE
    WHEN tag = 'CREATE TRIGGER' AND t.tgname ~ '^~dp_' AND NOT EXISTS (SELECT FROM ours o WHERE o.name = t.tgname AND o.function = t.tgfoid AND o.kind = t.tgtype AND (t.tgqual IS NULL OR t.tgname = '~dp_sealed'))
      THEN 'this name is one of pg_epsilon''s'
    WHEN tag = 'CREATE TRIGGER' AND t.tgname ~ '^~dp_' AND EXISTS (SELECT FROM whole w WHERE NOT EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = w.oid AND h.tgname = t.tgname
        AND substring(pg_get_triggerdef(h.oid) FROM ' FOR EACH ROW .*') = substring(pg_get_triggerdef(t.oid) FROM ' FOR EACH ROW .*')))
      THEN 'the hypertable has another trigger of this name'
    WHEN tag = 'ALTER TRIGGER' AND t.tgfoid IN (SELECT o.function FROM ours o) AND t.tgname NOT IN (SELECT o.name FROM ours o) THEN 'it is known by its name'
    WHEN tag = 'ALTER TABLE' AND p.seals AND (t.tgname = '~dp_sealed' AND t.tgenabled IN ('D', 'R') OR t.tgname = '~dp_sealed_replica' AND t.tgenabled IN ('D', 'O')) THEN 'sealed partitions would take rows'
  END
  FROM t, policy p LIMIT 1
$$;
COMMENT ON FUNCTION dp._wrong_trigger(oid, text) IS 'Why a trigger may not be as this statement left it: one of ours was replaced, renamed or disabled, on a protected relation or on a part of it. NULL: it may.';
REVOKE ALL ON FUNCTION dp._wrong_trigger(oid, text) FROM PUBLIC;

CREATE FUNCTION dp._keep_triggers() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong record;
BEGIN
  IF NOT EXISTS (SELECT FROM dp.relation_policy p WHERE p.partition_by IS NOT NULL) THEN
    RETURN;
  END IF;
  FOR wrong IN
    SELECT g.tgname, g.tgrelid::regclass AS relation, dp._wrong_trigger(g.oid, TG_TAG) AS why
    FROM pg_trigger g WHERE (g.tgname ~ '^~dp_' OR TG_TAG = 'ALTER TRIGGER') AND NOT g.tgisinternal
      AND (g.oid IN (SELECT d.objid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_trigger'::regclass)
        OR TG_TAG = 'ALTER TABLE' AND g.tgrelid IN (SELECT d.objid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass)) LOOP
    IF wrong.why IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('trigger %I of %s stays as it is: %s', wrong.tgname, wrong.relation, wrong.why),
        HINT = 'CALL dp.reopen_partition(relation, value) before late rows are loaded, dp.disable_turbo(relation) or dp.unprotect(relation) to be rid of it.';
    END IF;
  END LOOP;
END $$;
COMMENT ON FUNCTION dp._keep_triggers() IS 'Refuses to replace, rename or disable the triggers that keep rows in their partition, and sealed partitions sealed; dropping them is refused by dp._policy_drops_with_object (composition.md 5.2).';
REVOKE ALL ON FUNCTION dp._keep_triggers() FROM PUBLIC;
CREATE EVENT TRIGGER dp_keep_triggers ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER', 'ALTER TRIGGER', 'ALTER TABLE') EXECUTE FUNCTION dp._keep_triggers();
ALTER EVENT TRIGGER dp_keep_triggers ENABLE ALWAYS;
