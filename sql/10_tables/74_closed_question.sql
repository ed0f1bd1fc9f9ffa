CREATE TABLE dp.closed_question (
  question   text PRIMARY KEY,
  request_id uuid NOT NULL UNIQUE REFERENCES dp.ledger (request_id),
  of_request uuid,
  dataset    text NOT NULL REFERENCES dp.dataset,
  who        name NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  sqlstate   text NOT NULL,
  place      text NOT NULL
);
COMMENT ON TABLE dp.closed_question IS 'Questions closed by a failure that nobody foresaw, which could depend on a row: paid for and drawn no more, while stored answers stay served. CALL dp.reopen_question(request_id) opens one again (composition.md 10.3 d).';
COMMENT ON COLUMN dp.closed_question.question IS 'Cache key of the question without the version of the data.';
COMMENT ON COLUMN dp.closed_question.request_id IS 'The failure''s own row in dp.ledger.';
COMMENT ON COLUMN dp.closed_question.of_request IS 'The charge whose answer failed; NULL where nothing was charged.';
SELECT pg_catalog.pg_extension_config_dump('dp.closed_question', '');
