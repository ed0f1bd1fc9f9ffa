CREATE TABLE dp.lost_publication (
  name     text PRIMARY KEY,
  kind     text NOT NULL,
  columns  name[],
  comments boolean NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE dp.lost_publication IS 'Publications that went with a dropped relation, by its name: dp.check() names those whose relation was made again, as migrations do with views.';
SELECT pg_catalog.pg_extension_config_dump('dp.lost_publication', '');
