CREATE UNLOGGED TABLE dp.life (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  id        uuid NOT NULL DEFAULT gen_random_uuid()
);
COMMENT ON TABLE dp.life IS 'One random id for the time from one crash of the server to the next: PostgreSQL empties an unlogged table when it recovers from a crash, and keeps it over an orderly restart. Tells a read that a crash cut off from one that ended without an answer.';
INSERT INTO dp.life DEFAULT VALUES;
