CREATE TABLE dp.told (
  request_id   uuid PRIMARY KEY,
  who          name NOT NULL,
  dataset      text NOT NULL REFERENCES dp.dataset,
  mechanism    text NOT NULL,
  digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
  as_of        timestamptz NOT NULL,
  at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  request      jsonb NOT NULL,
  presentation jsonb NOT NULL
);
CREATE INDEX told_digest ON dp.told (digest);
COMMENT ON TABLE dp.told IS 'Grouped answers that follow from releases of other questions, as Turbo views give them, as they were told: dp.dp_compare and dp.dp_shown read them for who asked. Noisy values only. What was told before, word for word, and cost nothing has the row of the first time. Rows may be deleted: what they hold cannot be compared or shown again then.';
SELECT pg_catalog.pg_extension_config_dump('dp.told', '');
