CREATE TABLE dp.incarnation (
  singleton         boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  system_identifier bigint NOT NULL,
  timeline          integer NOT NULL,
  database_oid      oid NOT NULL,
  inode             numeric,
  ctime             bigint,
  CHECK ((inode IS NULL) = (ctime IS NULL))
);
COMMENT ON TABLE dp.incarnation IS 'Which physical ledger this is, and where it was when that was confirmed. Never dumped: after a restore or in a copy it differs from what the datasets remember or from where it is now, and every account is frozen until dp.confirm_ledger().';
COMMENT ON COLUMN dp.incarnation.timeline IS 'Of the WAL that the server was writing: another one after every promotion, at once.';
COMMENT ON COLUMN dp.incarnation.inode IS 'Of the data directory''s PG_VERSION; NULL on file systems that make inode numbers up.';
COMMENT ON COLUMN dp.incarnation.ctime IS 'When that file''s inode last changed, in nanoseconds: a copy over the original, and chown -R, move it.';
