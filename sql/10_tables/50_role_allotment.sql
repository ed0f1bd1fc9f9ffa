CREATE TABLE dp.role_allotment (
  role      name NOT NULL,
  dataset   text NOT NULL REFERENCES dp.dataset,
  epsilon   numeric NOT NULL CHECK (epsilon >= 0),
  delta     numeric NOT NULL DEFAULT 0 CHECK (delta >= 0 AND delta < 1),
  delta_rdp numeric NOT NULL DEFAULT 0 CHECK (delta_rdp >= 0),
  delta_add numeric NOT NULL DEFAULT 0 CHECK (delta_add >= 0),
  per       interval CHECK (per >= interval '1 minute'),
  since     timestamptz NOT NULL DEFAULT date_trunc('second', clock_timestamp()),
  PRIMARY KEY (role, dataset),
  CHECK (delta_rdp + delta_add = delta)
);
COMMENT ON TABLE dp.role_allotment IS 'How much of a dataset''s budget one role may spend: policy, not the guarantee. Keyed by name: a role dropped and made again keeps what it spent.';
COMMENT ON COLUMN dp.role_allotment.per IS 'The allotment renews after every such period, each with an account of its own; NULL: it is for life.';
COMMENT ON COLUMN dp.role_allotment.since IS 'Periods are counted from here, in UTC: the time when the allotment, or its period, was made.';
SELECT pg_catalog.pg_extension_config_dump('dp.role_allotment', '');
