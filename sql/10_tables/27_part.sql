CREATE TABLE dp.part (
  relation     regclass PRIMARY KEY,
  relation_key text NOT NULL
);
COMMENT ON TABLE dp.part IS 'Tables that are or were partitions of a protected relation: detached, they still hold rows of its units and cannot be published with their rows.';
SELECT pg_catalog.pg_extension_config_dump('dp.part', '');
