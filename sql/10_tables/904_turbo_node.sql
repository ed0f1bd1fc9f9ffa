CREATE TABLE dp.turbo_node (
  view     bigint NOT NULL REFERENCES dp.turbo_view ON DELETE CASCADE,
  node     text NOT NULL,
  seq      bigint NOT NULL DEFAULT 0,
  snapshot bytea NOT NULL,
  PRIMARY KEY (view, node)
);
ALTER TABLE dp.turbo_node ALTER COLUMN snapshot SET STORAGE EXTERNAL;
COMMENT ON TABLE dp.turbo_node IS 'A tree node''s histogram: its state after event seq of dp.turbo_hist_update. 28 bytes, and 16 bytes a bin: weights, counts, thresholds. Post-processing of released values.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_node', '');
CREATE TABLE dp.turbo_hist_update (
  view  bigint NOT NULL,
  node  text NOT NULL,
  seq   bigint NOT NULL,
  event bytea NOT NULL,
  PRIMARY KEY (view, node, seq),
  FOREIGN KEY (view, node) REFERENCES dp.turbo_node ON DELETE CASCADE
);
COMMENT ON TABLE dp.turbo_hist_update IS 'What happened to a node since its snapshot: kind, query and signed step, 41 bytes an event. Snapshot and log together are the histogram, bit for bit.';
SELECT pg_catalog.pg_extension_config_dump('dp.turbo_hist_update', '');
