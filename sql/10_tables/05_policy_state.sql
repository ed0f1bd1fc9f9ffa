CREATE TABLE dp.policy_state (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version   bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);
COMMENT ON TABLE dp.policy_state IS 'Counter moved by every policy change; the facade is behind while its own is smaller. Not dumped; it starts at the clock''s milliseconds, so that a restored one is ahead of every facade made before.';
INSERT INTO dp.policy_state DEFAULT VALUES;
SELECT pg_catalog.pg_extension_config_dump('dp.policy_state', 'WHERE false');
