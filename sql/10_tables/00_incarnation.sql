CREATE TABLE dp.incarnation (
  singleton         boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  system_identifier bigint NOT NULL,
  timeline          integer NOT NULL,
  database_oid      oid NOT NULL
);
COMMENT ON TABLE dp.incarnation IS 'Which physical ledger this is. Never dumped: after a restore or in a clone it differs from what the datasets remember, and every account is frozen until dp.confirm_ledger().';
INSERT INTO dp.incarnation (system_identifier, timeline, database_oid)
SELECT s.system_identifier, c.timeline_id, d.oid
FROM pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_database d
WHERE d.datname = pg_catalog.current_database();
