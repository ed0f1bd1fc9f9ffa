CREATE TABLE dp.returned (
  request_id uuid REFERENCES dp.ledger (request_id),
  role       name,
  PRIMARY KEY (request_id, role)
);
COMMENT ON TABLE dp.returned IS 'Which returns of the ledger were taken off which tree of accounts (role '''': the dataset''s own): each once.';
SELECT pg_catalog.pg_extension_config_dump('dp.returned', '');
