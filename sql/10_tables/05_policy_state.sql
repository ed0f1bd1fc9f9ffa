CREATE TABLE dp.policy_state (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version   bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE dp.policy_state IS 'Counter moved by every policy change; the facade is behind while its own is smaller.';
INSERT INTO dp.policy_state DEFAULT VALUES;
SELECT pg_catalog.pg_extension_config_dump('dp.policy_state', 'WHERE false');
