CREATE TABLE dp.ledger_export (
  at       timestamptz PRIMARY KEY DEFAULT clock_timestamp(),
  by       name NOT NULL DEFAULT session_user,
  last_seq bigint NOT NULL
);
COMMENT ON TABLE dp.ledger_export IS 'When dp.export_ledger() handed the ledger out, and up to which row: DROP EXTENSION is refused while later rows exist.';
SELECT pg_catalog.pg_extension_config_dump('dp.ledger_export', '');
