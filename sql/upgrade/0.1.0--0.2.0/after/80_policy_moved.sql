-- The facade's copies of our functions may be those of the older version: every proxy looks again.
SELECT dp._bump_policy();
