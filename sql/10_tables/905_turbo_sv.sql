CREATE TABLE dp.turbo_sv (
  view         bigint NOT NULL REFERENCES dp.turbo_view ON DELETE CASCADE,
  run          text NOT NULL,
  data_version bigint NOT NULL,
  incarnation  uuid NOT NULL,
  epoch        integer NOT NULL CHECK (epoch >= 0),
  epsilon      numeric NOT NULL,
  threshold    numeric,
  PRIMARY KEY (view, run)
);
COMMENT ON TABLE dp.turbo_sv IS 'SECRET, for dp_owner only, in no dump: the noisy thresholds of the sparse vectors. threshold NULL: not paid for. An epoch of another incarnation or data version counts as closed.';
CREATE TABLE dp.turbo_leaf_counts (
  view   bigint NOT NULL,
  part   integer NOT NULL,
  counts bytea NOT NULL,
  PRIMARY KEY (view, part),
  FOREIGN KEY (view, part) REFERENCES dp.turbo_partition ON DELETE CASCADE
);
ALTER TABLE dp.turbo_leaf_counts ALTER COLUMN counts SET STORAGE EXTERNAL;
COMMENT ON TABLE dp.turbo_leaf_counts IS 'SECRET, for dp_owner only, in no dump: the exact number of rows in every bin of a partition, 4 bytes each, big-endian. As secret as the rows; read anew at seal, dp.refresh and dp.enable_turbo only.';
