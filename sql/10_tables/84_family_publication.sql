CREATE TABLE dp.family_publication (
  name         text PRIMARY KEY,
  dataset      text NOT NULL,
  request_id   uuid NOT NULL REFERENCES dp.release (request_id),
  shows_grid   boolean NOT NULL,
  confidence   numeric NOT NULL CHECK (confidence > 0 AND confidence < 1),
  simultaneous boolean NOT NULL,
  at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (dataset, name),
  FOREIGN KEY (dataset, name) REFERENCES dp.family (dataset, name) ON DELETE CASCADE
);
COMMENT ON TABLE dp.family_publication IS
  'Families whose release is a table of schema dp_release, which all datasets share: a name stands there '
  'once. Goes with the family, and the tables with it.';
COMMENT ON COLUMN dp.family_publication.request_id IS
  'The release that the table was made from; it stays what it was until its publisher publishes a newer one.';
COMMENT ON COLUMN dp.family_publication.shows_grid IS
  'Whether the answers to the publisher''s grid are a table too, NAME_answers, for everybody.';
COMMENT ON COLUMN dp.family_publication.confidence IS
  'dp.confidence of the publisher''s call: with this probability the bars of dp.family_answer hold.';
COMMENT ON COLUMN dp.family_publication.simultaneous IS
  'Whether all those bars hold at once with that probability, or each by itself.';
SELECT pg_catalog.pg_extension_config_dump('dp.family_publication', '');

CREATE TABLE dp.family_answer (
  name             text NOT NULL REFERENCES dp.family_publication (name) ON DELETE CASCADE,
  number           integer NOT NULL,
  parameters       text[] NOT NULL,
  answer           double precision,
  unbiased         double precision,
  low              double precision,
  high             double precision,
  below_resolution boolean,
  PRIMARY KEY (name, number)
);
COMMENT ON TABLE dp.family_answer IS
  'The rows that the publisher of a family was given, in the order of the grid. The grid is a question of its asker.';
SELECT pg_catalog.pg_extension_config_dump('dp.family_answer', '');
