-- as above: a salt for every row
ALTER TABLE dp.ledger
  ADD COLUMN salt uuid DEFAULT gen_random_uuid(),
  DROP CONSTRAINT ledger_kind_check,
  ADD CONSTRAINT ledger_kind_check CHECK (kind IN ('charge', 'return', 'confirm', 'transfer', 'import', 'declassified', 'failure', 'freeze', 'reopen', 'redact', 'upgrade'));
