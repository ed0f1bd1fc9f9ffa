-- a default that is volatile: every dataset gets an id of its own
ALTER TABLE dp.dataset ADD COLUMN id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid();
