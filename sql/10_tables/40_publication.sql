CREATE TABLE dp.publication (
  relation regclass PRIMARY KEY,
  kind     text NOT NULL CHECK (kind IN ('protected', 'public')),
  columns  name[],
  comments boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE dp.publication IS 'What analysts may see: the shape of a protected relation, or a public table with its rows. columns NULL: all of them.';
SELECT pg_catalog.pg_extension_config_dump('dp.publication', '');
