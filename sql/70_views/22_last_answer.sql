CREATE FUNCTION dp._last_answer() RETURNS TABLE (request_id uuid, call text, path text, mechanism text, charge jsonb, margin text, "left" jsonb, as_of text, facts jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (l.last ->> 'request_id')::uuid, l.last ->> 'call', l.last ->> 'path', l.last ->> 'mechanism', l.last -> 'charge', l.last ->> 'margin', l.last -> 'left', l.last ->> 'as_of', NULLIF(l.last -> 'facts', 'null')
  FROM (SELECT NULLIF(current_setting('dp.last_answer', true), '')::jsonb) l(last) WHERE l.last ->> 'who' = dp._who()
$$;
COMMENT ON FUNCTION dp._last_answer() IS 'The row of dp.last_answer for who asks; the proxy shows its own, because it shares its sessions here among all.';
REVOKE ALL ON FUNCTION dp._last_answer() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dp._last_answer() TO dp_analyst, dp_gateway, dp_admin;
CREATE VIEW dp.last_answer AS SELECT * FROM dp._last_answer();
COMMENT ON VIEW dp.last_answer IS 'The session''s last private answer, no row before the first: what its NOTICE says, to be read by a program. charge: {} where it was free; margin: of its counts and sums at dp.confidence; left: of your budget; facts: whatever else is known of it, NULL where that is more than 8 kB. In a direct session a ROLLBACK takes it back, as it does a SET; the charge stays.';
GRANT SELECT ON dp.last_answer TO dp_analyst, dp_gateway, dp_admin;
