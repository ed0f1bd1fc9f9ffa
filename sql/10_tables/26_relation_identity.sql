CREATE TABLE dp.relation_identity (
  relation     regclass PRIMARY KEY,
  relation_key text NOT NULL
);
COMMENT ON TABLE dp.relation_identity IS 'The accounts of every relation that was ever protected and still exists: a table renamed while it was unprotected finds its own again.';
SELECT pg_catalog.pg_extension_config_dump('dp.relation_identity', '');
