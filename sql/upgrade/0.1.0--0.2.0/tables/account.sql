-- No default: what the engine of 0.1.0 still runs in an old session must fail here, uncharged.
ALTER TABLE dp.account
  ADD COLUMN period timestamptz NOT NULL DEFAULT '-infinity',
  DROP CONSTRAINT account_pkey;
ALTER TABLE dp.account
  ALTER COLUMN period DROP DEFAULT,
  ADD PRIMARY KEY (dataset, role, period, node, relation_key, leaf_key),
  ADD CONSTRAINT account_period CHECK (role <> '' OR period = '-infinity');
