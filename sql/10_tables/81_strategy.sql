CREATE TABLE dp.strategy (
  workload   text NOT NULL,
  theta      bigint NOT NULL,
  owner      name NOT NULL,
  strategy   text NOT NULL,
  queries    integer NOT NULL,
  columns    integer NOT NULL,
  shown      jsonb NOT NULL,
  definition bytea NOT NULL,
  PRIMARY KEY (workload, theta)
);
COMMENT ON TABLE dp.strategy IS 'Strategies of dp_sum_workload that were found before: functions of the workload and a released theta, so nothing in here depends on rows. It may be emptied at any time: what is missing is found again.';
COMMENT ON COLUMN dp.strategy.workload IS 'Digest of the workload, its options and the kind of noise.';
COMMENT ON COLUMN dp.strategy.owner IS 'Who asked it first; nobody else is shown the workload.';
SELECT pg_catalog.pg_extension_config_dump('dp.strategy', '');
