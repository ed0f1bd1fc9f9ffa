-- Triggers of ours on user tables fire for replication too; until then a partitioned relation is charged as a whole.
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT g.tgname, g.tgrelid::regclass AS relation FROM pg_trigger g JOIN dp.relation_policy p ON p.relation = g.tgrelid
           WHERE g.tgname IN ('~dp_partition_key', '~dp_sealed') AND g.tgenabled = 'O' AND NOT (dp._hypertable(p.relation)).hypertable LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.relation, t.tgname);
  END LOOP;
END $$;
INSERT INTO dp.part (relation, relation_key)
SELECT t.relid, p.relation_key FROM dp.relation_policy p CROSS JOIN LATERAL pg_partition_tree(p.relation) t WHERE t.relid <> p.relation;
