CREATE EXTENSION IF NOT EXISTS pg_epsilon CASCADE;
-- an older version becomes this one; of this one nothing changes
ALTER EXTENSION pg_epsilon UPDATE;
