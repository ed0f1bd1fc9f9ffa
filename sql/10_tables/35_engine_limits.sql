CREATE TABLE dp.engine_limits (
  singleton       boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  rows            bigint CHECK (rows BETWEEN 1000 AND 1000000000000000),
  bytes           bigint CHECK (bytes BETWEEN 1000000 AND 1000000000000000000),
  memory          bigint CHECK (memory BETWEEN 1000000 AND 1000000000),
  undeclared_rows bigint CHECK (undeclared_rows BETWEEN 1 AND 1000000000000)
);
COMMENT ON TABLE dp.engine_limits IS 'How large a question''s joins may get, by what is declared, before it is refused uncharged (CALL dp.set_limits); NULL or no row: the defaults of dp._limits().';
SELECT pg_catalog.pg_extension_config_dump('dp.engine_limits', '');
