CREATE TABLE dp.account (
  dataset       text NOT NULL REFERENCES dp.dataset,
  role          name NOT NULL DEFAULT '',
  node          text NOT NULL CHECK (node IN ('root', 'relation', 'leaf')),
  relation_key  text NOT NULL DEFAULT '',
  leaf_key      text NOT NULL DEFAULT '',
  spent_epsilon numeric NOT NULL DEFAULT 0 CHECK (spent_epsilon >= 0),
  spent_delta   numeric NOT NULL DEFAULT 0 CHECK (spent_delta >= 0),
  spent_rdp     numeric[],
  PRIMARY KEY (dataset, role, node, relation_key, leaf_key),
  CHECK ((node = 'root') = (relation_key = '')),
  CHECK ((node = 'leaf') = (leaf_key <> ''))
);
COMMENT ON TABLE dp.account IS 'Two trees of spent budget per dataset: the dataset''s own (role '''') and one per role''s allotment. A node without a row has spent nothing; a row is never reset or deleted.';
SELECT pg_catalog.pg_extension_config_dump('dp.account', '');
