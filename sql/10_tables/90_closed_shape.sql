CREATE TABLE dp.closed_shape (
  shape text PRIMARY KEY,
  at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE dp.closed_shape IS 'Call shapes closed after a run-time failure next to rows (which could depend on a row); the owner reopens one with CALL dp.reopen_shape(shape).';
SELECT pg_catalog.pg_extension_config_dump('dp.closed_shape', '');
