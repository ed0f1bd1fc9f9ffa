DO $$
DECLARE
  t record;
BEGIN
  -- under session_replication_role = replica too, as a logical replication worker has it (composition.md 5.2)
  FOR t IN SELECT g.tgname, g.tgrelid::regclass AS relation FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
           WHERE c.relnamespace = 'dp'::regnamespace AND NOT g.tgisinternal AND g.tgenabled <> 'A' LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.relation, t.tgname);
  END LOOP;
END $$;
