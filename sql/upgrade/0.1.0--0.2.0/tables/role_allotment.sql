ALTER TABLE dp.role_allotment
  ADD COLUMN per interval CHECK (per >= interval '1 minute'),
  ADD COLUMN since timestamptz NOT NULL DEFAULT date_trunc('second', clock_timestamp());
