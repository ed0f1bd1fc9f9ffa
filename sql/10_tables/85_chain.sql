CREATE TABLE dp.chain_head (
  dataset text PRIMARY KEY REFERENCES dp.dataset,
  epoch   integer NOT NULL DEFAULT 1 CHECK (epoch > 0),
  number  bigint NOT NULL DEFAULT 0 CHECK (number >= 0),
  hash    bytea NOT NULL,
  epsilon numeric NOT NULL DEFAULT 0,
  delta   numeric NOT NULL DEFAULT 0,
  rdp     numeric[],
  settled jsonb NOT NULL DEFAULT '{}',
  witnessed timestamptz
);
COMMENT ON TABLE dp.chain_head IS 'The newest link of every dataset''s chain, and what its linked ledger rows charged in all (epsilon, delta, rdp; what was given back is not deducted). Locked last, at the end of a transaction. settled: epoch -> the highest number of it that dp.confirm_ledger() settled. witnessed: when a proxy first named a head of it.';
SELECT pg_catalog.pg_extension_config_dump('dp.chain_head', '');
CREATE TABLE dp.chain (
  dataset    text NOT NULL REFERENCES dp.dataset,
  number     bigint NOT NULL CHECK (number > 0),
  epoch      integer NOT NULL CHECK (epoch > 0),
  kind       text NOT NULL,
  request_id uuid NOT NULL,
  asked      bytea,
  answered   bytea,
  hash       bytea NOT NULL,
  PRIMARY KEY (dataset, number)
);
COMMENT ON TABLE dp.chain IS 'Append-only: one link for every ledger row and every release of a dataset, numbered without gaps. hash is over the link before, the row, asked (salted digest of who and request, or of a release''s cache key) and answered (digest of its integers): docs/internals.md. Verified by dp.check() and pg-epsilon ledger verify.';
SELECT pg_catalog.pg_extension_config_dump('dp.chain', '');
