-- Triggers of ours on user tables fire for replication too; until then a partitioned relation is charged as a whole.
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT g.tgname, g.tgrelid::regclass AS relation FROM pg_trigger g JOIN dp.relation_policy p ON p.relation = g.tgrelid
           WHERE g.tgname = '~dp_partition_key' AND g.tgenabled = 'O' AND NOT dp._hypertable(p.relation) LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.relation, t.tgname);
  END LOOP;
END $$;
INSERT INTO dp.part (relation, relation_key)
SELECT t.relid, p.relation_key FROM dp.relation_policy p CROSS JOIN LATERAL pg_partition_tree(p.relation) t WHERE t.relid <> p.relation;
-- Seals are constants that the executor compares, not a call for each row: dp.enable_turbo makes the same two triggers.
DO $$
DECLARE
  v record;
BEGIN
  FOR v IN SELECT t.view, t.relation, p.partition_by, format_type(dp._partition_type(t.relation), NULL) AS kind, dp._hypertable(t.relation) AS hypertable
           FROM dp.turbo_view t JOIN dp.relation_policy p ON p.relation = t.relation WHERE t.partitioned LOOP
    EXECUTE dp._seal_trigger(v.relation);
    IF NOT v.hypertable THEN
      EXECUTE format('CREATE OR REPLACE TRIGGER "~dp_sealed_replica" AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION dp._sealed_partition(%L, %L, %L)', v.relation, v.view, v.partition_by, v.kind);
      EXECUTE format('ALTER TABLE %s ENABLE REPLICA TRIGGER "~dp_sealed_replica"', v.relation);
    END IF;
  END LOOP;
END $$;
