CREATE TABLE dp.turbo_query (
  view  bigint NOT NULL REFERENCES dp.turbo_view ON DELETE CASCADE,
  id    bytea NOT NULL CHECK (octet_length(id) = 32),
  query bytea NOT NULL,
  PRIMARY KEY (view, id)
);
COMMENT ON TABLE dp.turbo_query IS 'Linear queries that a cached answer or an update log names, by the SHA-256 of their canonical form. For dp_owner only: a literal in a question can be a secret.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_query', '');
