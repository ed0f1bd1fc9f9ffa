ALTER TABLE dp.turbo_partition
  ADD COLUMN rows_removed timestamptz,
  ADD COLUMN counts_kept boolean,
  ADD CONSTRAINT turbo_partition_removed CHECK ((rows_removed IS NULL) = (counts_kept IS NULL));
