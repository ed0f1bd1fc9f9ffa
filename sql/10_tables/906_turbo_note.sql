CREATE TABLE dp.turbo_note (
  view         bigint NOT NULL REFERENCES dp.turbo_view ON DELETE CASCADE,
  name         text NOT NULL,
  node         text NOT NULL,
  data_version bigint NOT NULL,
  incarnation  uuid NOT NULL,
  data         bytea NOT NULL,
  PRIMARY KEY (view, name, node)
);
COMMENT ON TABLE dp.turbo_note IS 'What the planner auto remembers of a partition: synopses (noisy counts of bins), what was rented, how much of a payment each bin has used up. Released values and public facts, but for dp_owner only: a synopsis may not be looked at before a question is asked of it.';
COMMENT ON COLUMN dp.turbo_note.incarnation IS 'Where it was written. In a restored copy a note "load" is void: answers that the original gave since, for what had been paid, are not on it.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_note', '');
