CREATE TABLE dp.entitlement (
  request_id uuid PRIMARY KEY REFERENCES dp.ledger (request_id),
  dataset    text NOT NULL REFERENCES dp.dataset,
  question   text NOT NULL,
  fresh      boolean NOT NULL,
  starts     integer NOT NULL DEFAULT 1 CHECK (starts BETWEEN 1 AND 8),
  life       uuid NOT NULL,
  cut        integer NOT NULL DEFAULT 0 CHECK (cut >= 0)
);
CREATE INDEX entitlement_question ON dp.entitlement (question);
CREATE INDEX entitlement_dataset ON dp.entitlement (dataset);
COMMENT ON TABLE dp.entitlement IS 'Committed charges whose answer has not been drawn: one row each, written with the charge, gone when the answer is recorded. Never dumped: a copy owes nothing (composition.md 10.3 c).';
COMMENT ON COLUMN dp.entitlement.question IS 'Cache key of the question without the version of the data.';
COMMENT ON COLUMN dp.entitlement.starts IS 'How many reads were begun for it; each was committed before it began. After 8 the entitlement ends.';
COMMENT ON COLUMN dp.entitlement.life IS 'dp.life when the latest read began: another value now means that the server crashed since then.';
COMMENT ON COLUMN dp.entitlement.cut IS 'How many of its reads a crash of the server cut off.';
