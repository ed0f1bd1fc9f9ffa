CREATE TABLE dp.closed_allotment (
  dataset text NOT NULL REFERENCES dp.dataset,
  role    name NOT NULL,
  since   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (dataset, role)
);
COMMENT ON TABLE dp.closed_allotment IS 'Roles whose second unforeseen failure in a dataset closed their allotment there: they get stored answers only, until CALL dp.reopen(dataset) (composition.md 10.3 d).';
SELECT pg_catalog.pg_extension_config_dump('dp.closed_allotment', '');
