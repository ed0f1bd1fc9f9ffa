CREATE TABLE dp.turbo_partition (
  view         bigint NOT NULL REFERENCES dp.turbo_view ON DELETE CASCADE,
  part         integer NOT NULL CHECK (part >= 0),
  leaf_key     text,
  lower        text,
  upper        text,
  scale        numeric NOT NULL CHECK (scale >= 1),
  sealed       boolean NOT NULL,
  data_version bigint NOT NULL DEFAULT 1,
  as_of        timestamptz NOT NULL DEFAULT clock_timestamp(),
  rows_removed timestamptz,
  counts_kept  boolean,
  PRIMARY KEY (view, part),
  CONSTRAINT turbo_partition_removed CHECK ((rows_removed IS NULL) = (counts_kept IS NULL))
);
COMMENT ON TABLE dp.turbo_partition IS 'Partitions of a Turbo view that were sealed, numbered from the origin of the declared grid (0: the whole relation, of a view without partitions). Public facts: sealing goes by the clock or the owner''s call, never by rows.';
COMMENT ON COLUMN dp.turbo_partition.leaf_key IS 'Its leaf account, keyed by declared bounds; NULL: the account of the relation.';
COMMENT ON COLUMN dp.turbo_partition.scale IS 'Its public number of rows n~, declared or bought once.';
COMMENT ON COLUMN dp.turbo_partition.data_version IS 'Moved when its counts are read anew (dp.refresh, dp.reopen_partition); what was cached before is served no more.';
COMMENT ON COLUMN dp.turbo_partition.rows_removed IS 'When the owner removed its rows by dp.retain; NULL: he did not, or reopened it since. Every answer about it says so.';
COMMENT ON COLUMN dp.turbo_partition.counts_kept IS 'Whether it is answered from the counts of its seal still; false: as a partition without rows.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_partition', '');
