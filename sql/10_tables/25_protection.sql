CREATE TABLE dp.protection (
  relation_key text NOT NULL,
  dataset      text NOT NULL REFERENCES dp.dataset,
  since        timestamptz NOT NULL DEFAULT clock_timestamp(),
  partition_by name,
  grid         jsonb,
  carried_to   text REFERENCES dp.dataset (name),
  PRIMARY KEY (relation_key, dataset)
);
COMMENT ON TABLE dp.protection IS 'Every dataset that a relation was ever protected in; survives the relation, so that moving it, or cutting its partitions anew, cannot forget what was spent.';
SELECT pg_catalog.pg_extension_config_dump('dp.protection', '');
