CREATE TABLE dp.dataset (
  name            text PRIMARY KEY CHECK (name <> ''),
  unit            text NOT NULL CHECK (unit IN ('row', 'user')),
  accountant      text NOT NULL CHECK (accountant IN ('pure', 'renyi')),
  epsilon         numeric NOT NULL CHECK (epsilon > 0),
  delta           numeric NOT NULL CHECK (delta >= 0 AND delta < 1),
  delta_rdp       numeric NOT NULL CHECK (delta_rdp >= 0),
  delta_add       numeric NOT NULL CHECK (delta_add >= 0),
  orders          numeric[],
  default_epsilon numeric CHECK (default_epsilon > 0),
  incarnation     uuid NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  id              uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  strict          boolean NOT NULL DEFAULT true,
  CHECK (delta_rdp + delta_add = delta),
  CHECK ((accountant = 'renyi') = (orders IS NOT NULL)),
  CHECK (accountant = 'pure' OR delta_rdp > 0)
);
COMMENT ON TABLE dp.dataset IS 'A set of relations that can describe the same privacy units, with one cap (epsilon, delta) for all of them together, for ever.';
COMMENT ON COLUMN dp.dataset.id IS 'Random: what a witness knows the dataset''s chain by, whatever its name or server.';
COMMENT ON COLUMN dp.dataset.delta_rdp IS 'Part of delta for the union over Rényi orders (0 for a pure accountant).';
COMMENT ON COLUMN dp.dataset.delta_add IS 'Part of delta that mechanisms may spend themselves (thresholding, imported releases).';
COMMENT ON COLUMN dp.dataset.strict IS 'Whether questions are refused that are about units through which a relation is not protected (dp._half_declared).';
SELECT pg_catalog.pg_extension_config_dump('dp.dataset', '');
