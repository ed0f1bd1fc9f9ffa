CREATE TABLE dp.synthetic (
  synthetic  regclass PRIMARY KEY,
  relation   regclass NOT NULL,
  provenance text NOT NULL CHECK (provenance IN ('dp', 'public', 'declassified', 'generated')),
  epsilon    numeric CHECK (epsilon > 0),
  delta      numeric NOT NULL DEFAULT 0 CHECK (delta >= 0 AND delta < 1),
  weight     name,
  proof      text,
  columns    name[] NOT NULL,
  since      timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK (epsilon IS NOT NULL OR provenance IN ('public', 'declassified')),
  CHECK (synthetic <> relation)
);
COMMENT ON TABLE dp.synthetic IS 'Synthetic copies of protected relations: where each came from, and what its rows cost (composition.md 11). A row outlives dp.unprotect; what a copy cost, or that it is declassified, is in the ledger and outlives the row.';
COMMENT ON COLUMN dp.synthetic.provenance IS 'dp: an outside release proved (epsilon, delta), which was charged; generated: by dp.make_synthetic, charged there; public: never derived from private rows; declassified: its owner answers for it.';
COMMENT ON COLUMN dp.synthetic.epsilon IS 'What the release of its rows cost, under add/remove of one privacy unit.';
COMMENT ON COLUMN dp.synthetic.weight IS 'Column of the copy that says how many rows each of its rows stands for; NULL and negative weights count as 0.';
COMMENT ON COLUMN dp.synthetic.proof IS 'Where the proof of (epsilon, delta) stands, as its owner put it.';
COMMENT ON COLUMN dp.synthetic.columns IS 'The columns that both have: if one of the two loses one or changes its type, nothing is asked of the copy.';
SELECT pg_catalog.pg_extension_config_dump('dp.synthetic', '');
