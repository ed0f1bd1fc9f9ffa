CREATE TABLE dp.column_policy (
  relation   regclass NOT NULL REFERENCES dp.relation_policy ON DELETE CASCADE,
  attnum     smallint NOT NULL,
  attname    name NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('opaque', 'bounds', 'domain', 'edges')),
  lower      text,
  upper      text,
  resolution text,
  domain     text[],
  edges      text[],
  nullable   boolean NOT NULL,
  max_rows_per_value bigint CHECK (max_rows_per_value > 0),
  PRIMARY KEY (relation, attnum)
);
COMMENT ON TABLE dp.column_policy IS 'What the owner declared about a column: bounds with a resolution, a domain, edges, or nothing but that predicates may use it (opaque).';
COMMENT ON COLUMN dp.column_policy.max_rows_per_value IS 'How many rows share one value of the column at most: bounds the size of joins on it, decides no answer.';
SELECT pg_catalog.pg_extension_config_dump('dp.column_policy', '');
