CREATE TABLE dp.account (
  dataset       text NOT NULL REFERENCES dp.dataset,
  role          name NOT NULL DEFAULT '',
  node          text NOT NULL CHECK (node IN ('root', 'relation', 'leaf')),
  relation_key  text NOT NULL DEFAULT '',
  leaf_key      text NOT NULL DEFAULT '',
  spent_epsilon numeric NOT NULL DEFAULT 0 CHECK (spent_epsilon >= 0),
  spent_delta   numeric NOT NULL DEFAULT 0 CHECK (spent_delta >= 0),
  spent_rdp     numeric[],
  period        timestamptz NOT NULL,
  PRIMARY KEY (dataset, role, period, node, relation_key, leaf_key),
  CONSTRAINT account_period CHECK (role <> '' OR period = '-infinity'),
  CHECK ((node = 'root') = (relation_key = '')),
  CHECK ((node = 'leaf') = (leaf_key <> ''))
);
COMMENT ON TABLE dp.account IS 'Two trees of spent budget per dataset: the dataset''s own (role '''') and one per role''s allotment. A node without a row has spent nothing; a row is never reset or deleted.';
COMMENT ON COLUMN dp.account.period IS 'When the allotment''s period began that this account is of; -infinity: the dataset''s own tree, and allotments for life. No default: the engine of 0.1.0 knows no periods and must not write here.';
SELECT pg_catalog.pg_extension_config_dump('dp.account', '');
