CREATE TABLE dp.turbo_exact (
  view         bigint NOT NULL,
  query        bytea NOT NULL,
  node         text NOT NULL,
  data_version bigint NOT NULL,
  mechanism    text NOT NULL,
  amount       numeric NOT NULL CHECK (amount > 0),
  value        numeric NOT NULL,
  as_of        timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (view, query, node, data_version, mechanism),
  FOREIGN KEY (view, query) REFERENCES dp.turbo_query ON DELETE CASCADE
);
COMMENT ON TABLE dp.turbo_exact IS 'Noisy answers per query and tree node, the dearest of each: served again for free. Never an exact value.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_exact', '');
