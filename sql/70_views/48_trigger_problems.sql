CREATE FUNCTION dp._trigger_problems() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE wanted(relation, name) AS (VALUES
    ('dp.ledger', 'append_only'), ('dp.ledger', 'append_only_truncate'), ('dp.release', 'append_only'), ('dp.release', 'append_only_truncate'),
    ('dp.account', 'keep_accounts'), ('dp.account', 'keep_accounts_truncate'), ('dp.account', 'monotone'), ('dp.dataset', 'keep_datasets'),
    ('dp.dataset', 'keep_datasets_truncate'), ('dp.dataset', 'immutable'), ('dp.protection', 'keep_protections'), ('dp.protection', 'keep_protections_truncate'),
    ('dp.chain', 'append_only'), ('dp.chain', 'append_only_truncate'),
    ('dp.draft', 'append_only'), ('dp.draft', 'append_only_truncate'), ('dp.draft', 'only_redacted')
  ), ours AS (
    SELECT w.relation::regclass::oid AS oid, w.relation, w.name, NULL AS state FROM wanted w
    WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = w.relation::regclass AND t.tgname = w.name AND NOT t.tgisinternal)
    UNION ALL
    -- of protected relations too, where a partition key that cannot be updated has a check of its own
    SELECT t.tgrelid, t.tgrelid::regclass::text, t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
    WHERE f.pronamespace = 'dp'::regnamespace AND t.tgname NOT IN ('~dp_partition_key', '~dp_sealed', '~dp_sealed_replica') AND NOT t.tgisinternal
  ), hypertable AS MATERIALIZED (
    SELECT v.relation, dp._hypertable(v.relation) AS is FROM dp.turbo_view v WHERE v.partitioned
  ), seals(relation, part, hyper) AS (
    SELECT h.relation::oid, h.relation::oid, h.is FROM hypertable h
    -- what inherits without being a partition or a chunk is no part of a view's partitions
    UNION SELECT s.relation, c.oid, s.hyper FROM seals s JOIN pg_inherits i ON i.inhparent = s.part JOIN pg_class c ON c.oid = i.inhrelid WHERE s.hyper OR c.relispartition
  )
  SELECT o.relation, CASE WHEN o.state IS NULL THEN format('its trigger %I is gone', o.name) WHEN o.state = 'O' THEN format('its trigger %I does not fire for replication', o.name) ELSE format('its trigger %I is disabled', o.name) END,
         CASE WHEN o.state IS NULL THEN 'Make it again as the script pg_epsilon--VERSION.sql in the server''s extension directory does, and look who dropped it.'
              ELSE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', o.relation, o.name) END
  FROM ours o WHERE o.state IS NULL OR o.state IN ('D', 'R')
     -- TimescaleDB keeps a hypertable's and its chunks' own way; by oid, because a name is looked up in schemas that may be closed
     OR o.state = 'O' AND NOT dp._hypertable(o.oid) AND NOT dp._is_chunk(o.oid)
  UNION ALL
  SELECT s.part::regclass::text, format('its trigger %I is gone, disabled or replaced: sealed partitions take rows, which Turbo does not count', n.name),
         format('CALL dp.reopen_partition(%L, a value of the partition key): that makes it anew; look who dropped it, and seal the partition again', s.relation::regclass)
  FROM seals s CROSS JOIN (VALUES ('~dp_sealed', 'O'), ('~dp_sealed_replica', 'R')) n(name, state)
  WHERE NOT (s.hyper AND n.state = 'R')
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = s.part AND t.tgname = n.name AND t.tgfoid = 'dp._sealed_partition()'::regprocedure AND t.tgenabled IN (n.state::"char", 'A'))
  UNION ALL
  SELECT e.name, CASE WHEN t.evtname IS NULL THEN 'this event trigger is gone' WHEN t.evtenabled = 'O' THEN 'this event trigger does not fire for replication' ELSE 'this event trigger is disabled' END,
         CASE WHEN t.evtname IS NULL THEN 'Make it again as the script pg_epsilon--VERSION.sql in the server''s extension directory does, and look who dropped it.'
              ELSE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', e.name) END
  FROM (VALUES ('dp_policy_follows_ddl'), ('dp_policy_drops_with_object'), ('dp_keep_ledger'), ('dp_keep_triggers'), ('dp_harden_extensions')) e(name)
  LEFT JOIN pg_event_trigger t ON t.evtname = e.name WHERE t.evtname IS NULL OR t.evtenabled <> 'A'
$$;
COMMENT ON FUNCTION dp._trigger_problems() IS 'Triggers of ours that are gone or disabled: those that keep ledger, accounts and datasets, those that follow DDL, those of protected relations.';
REVOKE ALL ON FUNCTION dp._trigger_problems() FROM PUBLIC;

CREATE FUNCTION dp._turbo_problems() RETURNS TABLE (object text, problem text, hint text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
BEGIN
  IF EXISTS (SELECT FROM dp.turbo_view) THEN
    RETURN QUERY SELECT t.* FROM jsonb_to_recordset(dp._engine('turbo_problems', '{}')) AS t(object text, problem text, hint text);
  END IF;
EXCEPTION WHEN OTHERS THEN
  RETURN QUERY SELECT 'Turbo', format('its views cannot be looked at: SQLSTATE %s', SQLSTATE), 'First mend what keeps every question from being answered; if nothing does, the server''s log has a line of that time.';
END $$;
COMMENT ON FUNCTION dp._turbo_problems() IS 'What is wrong with Turbo''s views, by the engine.';
REVOKE ALL ON FUNCTION dp._turbo_problems() FROM PUBLIC;
