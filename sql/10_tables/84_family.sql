CREATE TABLE dp.family (
  dataset      text NOT NULL REFERENCES dp.dataset,
  name         text NOT NULL,
  request_id   uuid NOT NULL REFERENCES dp.release (request_id),
  relation_key text NOT NULL,
  who          name NOT NULL,
  query        text NOT NULL,
  facts        jsonb NOT NULL,
  queries      integer NOT NULL CHECK (queries > 0),
  members      bigint[] NOT NULL,
  at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (dataset, name)
);
CREATE INDEX family_relation ON dp.family (dataset, relation_key);
COMMENT ON TABLE dp.family IS 'Releases of dp_release_numeric by the names that analysts gave them: questions about sets of their classes are answered from there, for nothing. Rows may be deleted: dp.drop_family.';
COMMENT ON COLUMN dp.family.facts IS 'What tells whether a question is about the family, and how its integers are read: public facts.';
COMMENT ON COLUMN dp.family.members IS 'Digests of the sets of classes that the queries of the last grid read: the bars of these hold together.';
SELECT pg_catalog.pg_extension_config_dump('dp.family', '');
