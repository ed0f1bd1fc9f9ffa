CREATE TABLE dp.freeze (
  dataset text NOT NULL REFERENCES dp.dataset,
  reason  text NOT NULL CHECK (reason IN ('failures', 'owner', 'incarnation', 'witness')),
  since   timestamptz NOT NULL DEFAULT clock_timestamp(),
  detail  jsonb,
  PRIMARY KEY (dataset, reason)
);
COMMENT ON TABLE dp.freeze IS 'Datasets that pay for nothing and draw nothing, and why; what was released stays readable. CALL dp.reopen(dataset) lifts failures and owner, CALL dp.confirm_ledger(dataset, ...) lifts incarnation and witness (composition.md 10.3 d, 12).';
SELECT pg_catalog.pg_extension_config_dump('dp.freeze', '');
