CREATE TABLE dp.relation_policy (
  relation          regclass PRIMARY KEY,
  dataset           text NOT NULL REFERENCES dp.dataset,
  relation_key      text NOT NULL,
  unit_column       name,
  unit_path         name[],
  other_units       name[],
  max_rows_per_unit integer CHECK (max_rows_per_unit > 0),
  max_rows          bigint CHECK (max_rows > 0),
  scale             numeric CHECK (scale >= 1),
  partition_by      name,
  grid              jsonb,
  data_version      bigint NOT NULL DEFAULT 1,
  as_of             timestamptz NOT NULL DEFAULT clock_timestamp(),
  refresh_every     interval CHECK (refresh_every >= interval '1 minute'),
  CHECK (num_nonnulls(unit_column, unit_path) <= 1),
  CHECK (other_units IS NULL OR num_nonnulls(unit_column, unit_path) = 1),
  CHECK ((partition_by IS NULL) = (grid IS NULL))
);
COMMENT ON TABLE dp.relation_policy IS 'Protected relations: their dataset, how a row reaches its privacy unit, declared bounds, and the public partition grid.';
COMMENT ON COLUMN dp.relation_policy.other_units IS 'Further columns that hold keys of units: each row belongs to all of them (an edge to both its ends).';
COMMENT ON COLUMN dp.relation_policy.relation_key IS 'Name of the relation''s accounts, fixed when it was first protected; accounts outlive the relation.';
COMMENT ON COLUMN dp.relation_policy.refresh_every IS 'Declared period: by the clock, answers of an earlier period are not served from the cache.';
COMMENT ON COLUMN dp.relation_policy.data_version IS 'Moved by the owner (dp.refresh), never by a write: answers cached under an older version are not served.';
SELECT pg_catalog.pg_extension_config_dump('dp.relation_policy', '');
