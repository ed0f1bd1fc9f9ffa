-- a default that is volatile: every dataset gets an id of its own
ALTER TABLE dp.dataset ADD COLUMN id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid();
-- datasets of 0.1.0 answer what they answered; new ones are strict
ALTER TABLE dp.dataset ADD COLUMN strict boolean NOT NULL DEFAULT false;
ALTER TABLE dp.dataset ALTER COLUMN strict SET DEFAULT true;
