CREATE TABLE dp.draft (
  request_id uuid NOT NULL REFERENCES dp.ledger (request_id),
  step       integer NOT NULL CHECK (step > 0),
  form       text NOT NULL,
  released   jsonb NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (request_id, step)
);
COMMENT ON TABLE dp.draft IS 'Releases that are drawn in steps (dp_release_numeric by Algorithm 2), one row for each step, committed as it was drawn: noisy values only, of which nothing is told before the release is recorded.';
COMMENT ON COLUMN dp.draft.form IS 'Digest of what the integers of a step mean: where it is another one now, the steps are not gone on with. It could tell a question that is guessed, hence dp.redact takes it.';
COMMENT ON COLUMN dp.draft.released IS 'The integers that the step released.';
SELECT pg_catalog.pg_extension_config_dump('dp.draft', '');
