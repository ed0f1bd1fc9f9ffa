CREATE TABLE dp.release (
  request_id   uuid PRIMARY KEY REFERENCES dp.ledger (request_id),
  cache_key    text NOT NULL,
  dataset      text NOT NULL REFERENCES dp.dataset,
  relation_key text NOT NULL,
  data_version bigint NOT NULL,
  as_of        timestamptz NOT NULL DEFAULT clock_timestamp(),
  mechanism    text NOT NULL,
  answer       jsonb NOT NULL
);
CREATE INDEX release_cache_key ON dp.release (cache_key, as_of DESC);
COMMENT ON TABLE dp.release IS 'What was published: noisy values only. Served again, free, to everyone who asks the same canonical question under the same data and policy version.';
SELECT pg_catalog.pg_extension_config_dump('dp.release', '');
